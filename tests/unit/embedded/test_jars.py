"""Fetching of Kafka's jars, with a program of ours in Java's place that plays Ivy as a process."""

import multiprocessing
from pathlib import Path

import pytest

from mirrorlake.embedded.jars import kafka_libs, mirror_maker_libs
from mirrorlake.errors import JavaUnusableError, ServerUnusableError

# Plays `java -jar ivy.jar … -ivy FILE … -retrieve PATTERN`: counts its runs, brings one jar per dependency.
IVY = """#!/bin/sh
if [ "$1" = --list-modules ]; then echo "java.base@17.0.15"; echo "jdk.incubator.vector@17.0.15"; exit; fi
echo run >> {folder}/runs
while [ $# -gt 0 ]; do
  [ "$1" = -ivy ] && ivy_file=$2
  [ "$1" = -retrieve ] && libs=$(dirname "$2")
  shift
done
{failure}
sleep 0.3
mkdir -p "$libs"
sed -n 's/.*name="\\([^"]*\\)" rev="\\([^"]*\\)".*/\\1-\\2.jar/p' "$ivy_file" |
while read -r jar; do : > "$libs/$jar"; done
"""


def install_java(folder: Path, monkeypatch: pytest.MonkeyPatch, *, failure: str = "") -> None:
    program = folder / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(IVY.format(folder=folder, failure=failure))
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder / "jdk"))


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_jars_are_fetched_once_and_said_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    install_java(tmp_path, monkeypatch)
    cache = tmp_path / "not" / "yet" / "there"

    first = kafka_libs(cache=cache)
    said = capfd.readouterr()
    second = kafka_libs(cache=cache)

    assert first == second == cache / "kafka-4.3.0"
    assert names(first) == ["kafka_2.13-4.3.0.jar", "slf4j-simple-1.7.36.jar"]
    assert runs(tmp_path) == 1
    assert said.out == ""
    assert "downloading" in said.err
    assert capfd.readouterr().err == ""


def test_only_the_jars_and_the_lock_are_left_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, monkeypatch)
    half_of_a_killed_download = tmp_path / "cache" / ".kafka-4.3.0.partial" / "libs"
    half_of_a_killed_download.mkdir(parents=True)
    (half_of_a_killed_download / "half.jar").touch()

    libs = kafka_libs(cache=tmp_path / "cache")

    assert names(tmp_path / "cache") == [".kafka-4.3.0.lock", "kafka-4.3.0"]
    assert "half.jar" not in names(libs)


def test_mirror_maker_comes_beside_the_broker_in_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, monkeypatch)

    libs = mirror_maker_libs(cache=tmp_path)

    assert libs.name == "kafka-4.3.0-mirror-maker"
    assert {"connect-mirror-4.3.0.jar", "connect-runtime-4.3.0.jar", "kafka_2.13-4.3.0.jar"} < set(names(libs))


def test_processes_that_ask_at_once_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(tmp_path, monkeypatch)
    spawn = multiprocessing.get_context("spawn")  # forking a process that has threads is a warning, so an error

    with spawn.Pool(4) as pool:
        found = [pool.apply_async(kafka_libs, kwds={"cache": tmp_path / "cache"}) for _process in range(4)]
        folders = {answer.get() for answer in found}
        pool.close()
        pool.join()

    assert folders == {tmp_path / "cache" / "kafka-4.3.0"}
    assert runs(tmp_path) == 1


def test_a_failed_download_is_tried_again_and_then_told_with_reason_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = 'echo "Server access error: java.net.UnknownHostException: repository.example"; exit 1'
    install_java(tmp_path, monkeypatch, failure=failure)

    with pytest.raises(ServerUnusableError, match=r"UnknownHostException: repository\.example.*check the network"):
        kafka_libs(cache=tmp_path / "cache")

    assert runs(tmp_path) == 3
    assert names(tmp_path / "cache") == [".kafka-4.3.0.lock"]


def test_jars_put_in_place_by_hand_need_neither_java_nor_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/jdk")
    (tmp_path / "kafka-4.3.0").mkdir()

    assert kafka_libs(cache=tmp_path) == tmp_path / "kafka-4.3.0"


def test_a_missing_java_is_told_before_anything_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/jdk")

    with pytest.raises(JavaUnusableError, match="/no/such/jdk"):
        kafka_libs(cache=tmp_path)


def test_a_cache_that_cannot_be_made_names_the_variable_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ServerUnusableError, match="MIRRORLAKE_CACHE"):
        kafka_libs(cache=tmp_path / "file" / "cache")
