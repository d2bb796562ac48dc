"""One Spark session for all tests of this folder, and a service on the engine as a process of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.pipeline.engine_process import HERE, StartProgram
from mirrorlake.errors import JavaUnusableError
from mirrorlake.java import find_java
from mirrorlake.pipeline.session import EngineSession
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings


@pytest.fixture(scope="session")
def java() -> None:
    try:
        find_java()
    except JavaUnusableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def engine(java: None) -> Iterator[EngineSession]:
    """A session with two lanes and a batch slot, of a file: only one may live in a process."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), before]))
    settings = SessionSettings(lanes=2, batch_slots=1, preload=("fractions", "no_such_module:function"))
    try:
        with build_session(settings) as session:
            yield session
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def start_program(java: None, tmp_path: Path) -> Iterator[StartProgram]:
    start = StartProgram(tmp_path)
    yield start
    for program in start.started:
        program.__exit__()
