"""The example files are what users start from: each must validate, or be refused for what is not there yet only."""

from pathlib import Path

import pytest

from mirrorlake.config.loading import load_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.config.resolved import Form

EXAMPLES = Path(__file__).parents[3] / "examples"
USABLE = {
    "kafka-to-kafka.yaml": (Form.NATIVE, 1, ("kafka",)),
    "kafka-to-parquet.yaml": (Form.NATIVE, 1, ("filesystem",)),
    "kafka-to-kafka-and-parquet.yaml": (Form.NATIVE, 1, ("kafka", "filesystem")),
    "mirror-v3/kafka.yaml": (Form.MIRROR_V3, 1, ("kafka",)),
    "mirror-v3/filesystem.yaml": (Form.MIRROR_V3, 2, ("filesystem",)),
}
ANNOUNCED = {"mirror-v3/s3.yaml": ["destination.type: `type: s3` is not available in this version"]}


@pytest.mark.parametrize("name", list(USABLE))
def test_an_example_validates(name: str) -> None:
    configuration = load_configuration(EXAMPLES / name, {})
    shape = (configuration.form, len(configuration.mirrors), configuration.destination_types)
    assert shape == USABLE[name]


@pytest.mark.parametrize("name", list(ANNOUNCED))
def test_an_example_of_what_is_announced_is_refused_for_that_only(name: str) -> None:
    with pytest.raises(ConfigurationErrors) as caught:
        load_configuration(EXAMPLES / name, {})
    shown = [f"{p.place.field}: {p.message}" for p in caught.value.problems]
    assert shown == ANNOUNCED[name]


def test_no_example_is_forgotten() -> None:
    files = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("**/*.yaml")}
    assert files == {*USABLE, *ANNOUNCED}
