"""The example files are what users start from: each must validate."""

from pathlib import Path

import pytest

from mirrorlake.config.loading import load_configuration
from mirrorlake.config.resolved import Form

EXAMPLES = Path(__file__).parents[3] / "examples"
VARIABLES = {"LAKE_KEY_ID": "an-id", "LAKE_SECRET_KEY": "a-secret"}
USABLE = {
    "kafka-to-kafka.yaml": (Form.NATIVE, 1, ("kafka",)),
    "kafka-to-parquet.yaml": (Form.NATIVE, 1, ("filesystem",)),
    "kafka-to-kafka-and-parquet.yaml": (Form.NATIVE, 1, ("kafka", "filesystem")),
    "mirror-v3/kafka.yaml": (Form.MIRROR_V3, 1, ("kafka",)),
    "mirror-v3/filesystem.yaml": (Form.MIRROR_V3, 2, ("filesystem",)),
    "mirror-v3/s3.yaml": (Form.MIRROR_V3, 1, ("s3",)),
    "kafka-to-s3.yaml": (Form.NATIVE, 1, ("s3",)),
}


@pytest.mark.parametrize("name", list(USABLE))
def test_an_example_validates(name: str) -> None:
    configuration = load_configuration(EXAMPLES / name, VARIABLES)
    shape = (configuration.form, len(configuration.mirrors), configuration.destination_types)
    assert shape == USABLE[name]


def test_no_example_is_forgotten() -> None:
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("**/*.yaml")}
    assert files == set(USABLE)
