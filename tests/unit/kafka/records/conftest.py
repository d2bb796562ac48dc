from collections.abc import Iterator

import pytest

from mirrorlake.kafka.records import decode, encode


@pytest.fixture(scope="module", params=["by the compiled loops", "few records without them"])
def way_of_decoding(request: pytest.FixtureRequest) -> Iterator[str]:
    """Makes batches be read and written by the loops, or without them where that is tried at all."""
    is_loaded = request.param == "by the compiled loops"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "are_loaded", lambda: is_loaded)
        patch.setattr(encode, "are_loaded", lambda: is_loaded)
        yield request.param
