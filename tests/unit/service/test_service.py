"""Commands and questions of a service whose clusters do not answer: what they need no partition for."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mirrorlake.config.loading import load_configuration
from mirrorlake.config.problems import ConfigurationErrors
from mirrorlake.errors import CommandRefusedError, ConfigurationError
from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.service.lifecycle.endings import EXIT_DONE
from mirrorlake.service.lifecycle.parts import PAUSES_VARIABLE, RunOptions
from mirrorlake.service.selection import Pauses, Selection
from mirrorlake.service.service import Service
from support.copies import wait_until
from support.running_service import RunningService

M = Selection(mirror="m")


def write(path: Path, *, heartbeat: str = "1s", lanes: int = 2, mirrors: str = "", port: int = 9) -> Path:
    path.write_text(
        f"""
clusters: {{east: {{bootstrap-servers: "localhost:{port}"}}}}
stores: {{lake: {{type: filesystem, root: "{path.parent}"}}}}
mirrors:
- {{name: m, source: {{cluster: east, topics: [orders]}}, destinations: [{{type: archive, store: lake}}]}}
{mirrors}
service: {{heartbeat: {heartbeat}, metrics: off}}
engine: {{lanes: {lanes}, memory: 512MiB}}
"""
    )
    return path


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that nobody listens on, kept from others."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def config(tmp_path: Path, closed_port: int) -> Path:
    return write(tmp_path / "mirror.yaml", port=closed_port)


@pytest.fixture
def running(config: Path) -> Iterator[RunningService]:
    with RunningService(config) as running:
        wait_until(lambda: "m: orders" in str(running.service.readiness().reasons), "the first look to have failed")
        yield running


def test_commands_of_a_mirror_that_waits_to_begin_are_taken_and_are_idempotent(running: RunningService) -> None:
    service = running.service
    for _ in range(2):
        assert service.pause(M).changed == ()
    service.look_now()
    for _ in range(2):
        assert service.restart(M).as_json() == {"changed": [], "unchanged": [], "ending": []}
    for _ in range(2):
        assert service.resume(M).changed == ()
    assert service.health().is_good
    service.stop()
    service.stop()
    assert running.exit_code() == EXIT_DONE


@pytest.mark.parametrize(
    ("selection", "said", "there_are"),
    [
        (Selection(mirror="n"), "there is no mirror n", "there is: m"),
        (Selection(mirror="m", topic="bills"), "there is no topic of mirror m bills", "none yet"),
    ],
)
def test_an_unknown_name_is_refused_with_the_names_there_are(
    config: Path, selection: Selection, said: str, there_are: str
) -> None:
    service = Service(load_configuration(config, environ={}), RunOptions(engine=InProcessEngine))
    for command in (service.pause, service.resume, service.restart):
        with pytest.raises(CommandRefusedError, match=said) as caught:
            command(selection)
        assert there_are in caught.value.hint


def test_a_service_that_has_not_begun_answers_every_question(config: Path) -> None:
    service = Service(load_configuration(config, environ={}), RunOptions(engine=InProcessEngine))
    service.look_now()
    assert service.status()["partitions"] == []
    assert service.health().is_good
    assert service.readiness().reasons == ("starting",)


def test_a_reload_takes_what_may_change_and_says_what_it_took(running: RunningService, config: Path) -> None:
    port = load_configuration(config, environ={}).clusters[0].settings.bootstrap_servers[0].rpartition(":")[2]
    write(config, heartbeat="off", port=int(port))
    assert running.service.reload() == ["service.heartbeat"]
    with capture_logs() as lines:
        assert running.service.reload() == []
    assert lines[-1]["changed"] == "nothing"


def test_a_reload_that_needs_a_restart_takes_nothing_and_names_it_all(config: Path, closed_port: int) -> None:
    service = Service(
        load_configuration(config, environ={}),
        RunOptions(engine=InProcessEngine),
        reread=lambda: load_configuration(config, environ={}),
    )
    added = "- {name: n, source: {cluster: east, topics: [bills]}, destinations: [{type: archive, store: lake}]}"
    write(config, heartbeat="off", lanes=3, mirrors=added, port=closed_port)
    with pytest.raises(CommandRefusedError, match=r"need a restart: mirrors.n \(added\), engine.lanes \(") as caught:
        service.reload()
    assert (
        "service.heartbeat, `limit` of clusters, and `limit` and `heartbeats` of mirrors can be changed"
        in caught.value.hint
    )
    write(config, port=closed_port)
    assert service.reload() == [], "nothing of the one before was taken"


def test_a_reload_of_a_broken_file_says_what_is_wrong_with_it_and_changes_nothing(config: Path) -> None:
    service = Service(
        load_configuration(config, environ={}),
        RunOptions(engine=InProcessEngine),
        reread=lambda: load_configuration(config, environ={}),
    )
    config.write_text("mirrors: 7")
    with pytest.raises(ConfigurationErrors):
        service.reload()


def test_a_service_without_a_file_cannot_reload(config: Path) -> None:
    service = Service(load_configuration(config, environ={}), RunOptions(engine=InProcessEngine))
    with pytest.raises(CommandRefusedError, match="not started from a file"):
        service.reload()


def test_what_was_paused_before_a_process_started_itself_again_stays_paused(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses().with_rule(M, is_paused=True)
    monkeypatch.setenv(PAUSES_VARIABLE, pauses.as_text())
    service = Service(load_configuration(config, environ={}), RunOptions(engine=InProcessEngine))
    assert service.pauses == pauses
    assert PAUSES_VARIABLE not in os.environ, "the next start by somebody else begins without"


def test_pauses_that_no_service_wrote_are_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PAUSES_VARIABLE, '[{"mirror": 7}]')
    with pytest.raises(ConfigurationError, match=PAUSES_VARIABLE):
        Service(load_configuration(config, environ={}), RunOptions(engine=InProcessEngine))
