import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.session_start import build_session
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.pipeline.start_checks import check_page, check_settings
from mirrorlake.service.archives.merging import keeping_jobs
from mirrorlake.service.lifecycle.parts import session_settings_of
from mirrorlake.verify.engine import verification_jobs
from unit.config.config_texts import kafka, load


def test_only_a_service_serves_sparks_page_and_commands_of_the_same_file_run_beside_it() -> None:
    config = load(kafka() + "engine: {lanes: 3, ui: 4040}\n")
    built: list[SessionSettings] = []

    def build(settings: SessionSettings) -> InProcessEngine:
        built.append(settings)
        return InProcessEngine(settings)

    with keeping_jobs(config, build, at_once=None), verification_jobs(config, build):
        assert [each.ui_port for each in built] == [None, None]
    assert session_settings_of(config, is_stopping=bool).ui_port == 4040


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def taken_port(request: pytest.FixtureRequest) -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((request.param, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_page_whose_port_is_taken_is_refused_before_a_jvm_starts(
    taken_port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there is no Java"))
    with pytest.raises(ConfigurationError, match=rf"engine\.ui: port {taken_port} of 127\.0\.0\.1 cannot be had: "):
        build_session(SessionSettings(lanes=1, ui_port=taken_port))


def test_a_port_that_is_free_or_was_in_use_a_moment_ago_is_not_refused() -> None:
    with socket.socket() as listener, socket.socket() as client:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a Java server has it
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        client.connect(("127.0.0.1", port))
        accepted, _ = listener.accept()
        accepted.close()  # the listener's side ends first, and its port lingers
    check_settings(SessionSettings(lanes=1, ui_port=port))


def test_a_page_that_went_to_another_port_is_refused() -> None:
    settings = SessionSettings(lanes=1, ui_port=4040)
    check_page(settings, "http://127.0.0.1:4040")
    check_page(settings, None)
    check_page(SessionSettings(lanes=1), None)
    with pytest.raises(ConfigurationError, match=r"Spark's page went to http://127\.0\.0\.1:4041"):
        check_page(settings, "http://127.0.0.1:4041")


def test_an_event_log_without_its_folder_is_refused_before_a_jvm_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there is no Java"))
    with pytest.raises(ConfigurationError) as caught:
        build_session(SessionSettings(lanes=1, event_log=tmp_path / "logs"))
    assert caught.value.message == f"engine.event-log: {tmp_path}/logs does not exist"
    assert caught.value.hint == "make the folder, or leave `engine.event-log` out"


def test_an_event_log_must_be_a_folder_that_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_settings(SessionSettings(lanes=1, event_log=tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="file is not a folder"):
        check_settings(SessionSettings(lanes=1, event_log=tmp_path / "file"))
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)  # root may write everywhere
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        check_settings(SessionSettings(lanes=1, event_log=tmp_path))
