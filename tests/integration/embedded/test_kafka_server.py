"""The embedded broker against the operating system: start, crash, freeze, and the death of who started it."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from conftest import NewKafka
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.embedded.readiness import NotReadyError, check_ready
from mirrorlake.errors import ServerUnusableError

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 30.0


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def cluster_id(server: EmbeddedKafka) -> str:
    lines = (server.folder / "data" / "meta.properties").read_text().splitlines()
    return next(line for line in lines if line.startswith("cluster.id=")).removeprefix("cluster.id=")


def is_serving(server: EmbeddedKafka) -> bool:
    try:
        check_ready("127.0.0.1", server.port, cluster_id=cluster_id(server), timeout_seconds=1.0)
    except NotReadyError:
        return False
    return True


def is_gone(pid: int) -> bool:
    """Where process 1 of a container does not reap orphans, a dead one stays listed as a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def processes_with(text: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if any(text in argument for argument in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.quick
def test_shared_brokers_are_two_clusters_and_serve(
    source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka
) -> None:
    assert is_serving(source_kafka)
    assert is_serving(destination_kafka)
    assert cluster_id(source_kafka) != cluster_id(destination_kafka)


def test_restart_and_crash_keep_port_and_data(new_kafka: NewKafka) -> None:
    server = new_kafka()
    before = (server.bootstrap_servers, cluster_id(server))
    first_pid = server.pid

    server.restart()
    assert is_serving(server)
    second_pid = server.pid
    os.kill(second_pid, signal.SIGKILL)
    wait_until(lambda: not server.is_running)
    server.start()

    assert is_serving(server)
    assert (server.bootstrap_servers, cluster_id(server)) == before
    assert len({first_pid, second_pid, server.pid}) == 3


def test_a_second_object_on_the_folder_of_a_stopped_broker_goes_on_with_its_port(
    new_kafka: NewKafka, kafka_libs: Path
) -> None:
    first = new_kafka()
    first.stop()

    with EmbeddedKafka(first.folder, libs=kafka_libs) as second:
        assert second.bootstrap_servers == first.bootstrap_servers
        assert is_serving(second)


def test_a_paused_broker_is_silent_until_resumed_and_can_be_stopped_while_paused(new_kafka: NewKafka) -> None:
    server = new_kafka()

    server.pause()
    assert not is_serving(server)
    assert server.is_running
    server.resume()
    wait_until(lambda: is_serving(server))
    server.pause()
    pid = server.pid
    server.stop()

    assert not psutil.pid_exists(pid)


def test_nothing_is_left_running_after_stop_and_after_kill(new_kafka: NewKafka) -> None:
    server = new_kafka()
    assert len(processes_with(str(server.folder))) >= 1

    server.stop()
    wait_until(lambda: processes_with(str(server.folder)) == [])
    server.start()
    server.kill()
    wait_until(lambda: processes_with(str(server.folder)) == [])

    with pytest.raises(ServerUnusableError, match="is not started"):
        _ = server.pid


def test_a_broker_that_dies_at_start_says_why(new_kafka: NewKafka) -> None:
    with pytest.raises(ServerUnusableError, match=r"(?s)died while starting.*no\.such\.Reporter"):
        new_kafka(metric_reporters="no.such.Reporter")


def test_properties_kafka_refuses_are_named_in_the_error(new_kafka: NewKafka) -> None:
    with pytest.raises(ServerUnusableError, match=r"(?s)could not be formatted.*log\.segment\.bytes"):
        new_kafka(log_segment_bytes=1)


def test_a_taken_port_is_an_error_that_names_it(new_kafka: NewKafka, kafka_libs: Path, tmp_path: Path) -> None:
    holder = new_kafka()

    with pytest.raises(ServerUnusableError, match=str(holder.port)):
        EmbeddedKafka(tmp_path / "second", libs=kafka_libs, port=holder.port).start()
    assert is_serving(holder)


def test_another_clusters_broker_is_not_taken_for_ours(source_kafka: EmbeddedKafka) -> None:
    with pytest.raises(NotReadyError, match="does not belong to cluster somebody-else"):
        check_ready("127.0.0.1", source_kafka.port, cluster_id="somebody-else", timeout_seconds=5.0)


@pytest.mark.parametrize("is_paused", [False, True])
def test_the_broker_dies_with_the_process_that_started_it(kafka_libs: Path, tmp_path: Path, is_paused: bool) -> None:
    script = f"""
        import time
        from pathlib import Path
        from mirrorlake.embedded.kafka_server import EmbeddedKafka
        server = EmbeddedKafka(Path({str(tmp_path / "kafka")!r}), libs=Path({str(kafka_libs)!r})).start()
        if {is_paused}:
            server.pause()
        print(server.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        broker_pid = int(parent.stdout.readline())
        assert not is_gone(broker_pid)
        parent.kill()

    wait_until(lambda: is_gone(broker_pid))
    wait_until(lambda: processes_with(str(tmp_path)) == [])
