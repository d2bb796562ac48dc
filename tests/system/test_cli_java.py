"""Without a usable Java the command says which one it found and how to get one; what needs none works all the same."""

from pathlib import Path

import pytest

from mirrorlake.embedded.kafka_server import EmbeddedKafka
from support.command import mirrorlake, write_yaml
from support.records import simple_records
from support.topics import make_topic, topics_of

pytestmark = pytest.mark.slow

REMEDY = "hint: install a JDK or full JRE 17 or newer"


def old_java(folder: Path) -> Path:
    """A program that says what a Java 11 says."""
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --list-modules ]; then echo java.base@11.0.2; exit 0; fi\n'
        "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
    )
    program.chmod(0o755)
    return program


def configuration(folder: Path, source: str, destination: str, topic: str) -> Path:
    return write_yaml(
        folder / "mirror.yaml",
        f'clusters: {{east: {{bootstrap-servers: "{source}"}}, west: {{bootstrap-servers: "{destination}"}}}}\n'
        f"mirrors:\n  - {{name: m, source: {{cluster: east, topics: [{topic}]}}, "
        "destinations: [{type: kafka, cluster: west}]}\n",
    )


@pytest.mark.parametrize("kind", ["too old", "missing"])
def test_a_run_without_usable_java_ends_with_code_1_and_touches_nothing(
    kind: str, source_kafka: EmbeddedKafka, destination_kafka: EmbeddedKafka, topic_name: str, tmp_path: Path
) -> None:
    source, destination = source_kafka.bootstrap_servers, destination_kafka.bootstrap_servers
    make_topic(source, topic_name, simple_records(3))
    config = configuration(tmp_path, source, destination, topic_name)
    if kind == "too old":
        program = old_java(tmp_path)
        environ = {"JAVA_HOME": "", "PATH": str(program.parent)}
        said = f"error: Java cannot be used: {program} (PATH) is Java 11.0.2, and 17 or newer is needed"
    else:
        environ = {"JAVA_HOME": str(tmp_path)}
        said = f"error: Java cannot be used: JAVA_HOME={tmp_path}, but there is no program {tmp_path}/bin/java"

    ran = mirrorlake("run", "--once", "-c", config, environ=environ)
    compared = mirrorlake("verify", "-c", config, environ=environ)

    for ended in (ran, compared):
        assert (ended.code, ended.out) == (1, "")
        assert said in ended.err
        assert REMEDY in ended.err
    assert topic_name not in topics_of(destination)
    # Looking needs no Java.
    assert mirrorlake("status", "-c", config, environ=environ).code == 0
