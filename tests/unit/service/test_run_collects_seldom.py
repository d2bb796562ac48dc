"""A service from the command line: how often Python looks for cycles while it runs."""

import gc
from types import SimpleNamespace

import pytest

import mirrorlake.service.run as command
from mirrorlake.freed_memory import OBJECTS_PER_COLLECTION


@pytest.mark.parametrize("fails", [False, True])
def test_the_driver_looks_for_cycles_seldom_and_as_before_afterwards(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def serve() -> int:
        seen.append(gc.get_threshold()[0])
        if fails:
            raise OSError("no")
        return 3

    signals = SimpleNamespace(install=lambda: None, retire=lambda: None)
    monkeypatch.setattr(command, "Service", lambda *_, **__: SimpleNamespace(signals=signals, run=serve))
    before = gc.get_threshold()
    config, options = SimpleNamespace(refusal_to_run=""), SimpleNamespace()
    if fails:
        with pytest.raises(OSError, match="no"):
            command.run(config, options)  # type: ignore[arg-type]
    else:
        assert command.run(config, options) == 3  # type: ignore[arg-type]
    assert seen == [OBJECTS_PER_COLLECTION]
    assert gc.get_threshold() == before
