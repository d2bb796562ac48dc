"""Java's look-up, against small programs that answer as the Javas of this world do."""

from pathlib import Path

import pytest

from mirrorlake.errors import JavaUnusableError
from mirrorlake.java import find_java

GOOD = 'echo "java.base@17.0.15"; echo "jdk.incubator.vector@17.0.15"'
JAVA_8 = """
if [ "$1" = --list-modules ]; then echo "Unrecognized option: --list-modules" >&2; exit 1; fi
echo 'openjdk version "1.8.0_402"' >&2
"""
MAC_STUB = 'echo "The operation could not be completed. Unable to locate a Java Runtime." >&2; exit 1'


def java_home(folder: Path, answer: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    return folder


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    home = java_home(tmp_path / "home", GOOD)
    on_path = java_home(tmp_path / "path", GOOD.replace("17.0.15", "21.0.2"))

    found = find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})

    assert (found.executable, found.version) == (home / "bin" / "java", "17.0.15")
    assert found.source == f"JAVA_HOME={home}"


@pytest.mark.parametrize("environ", [{}, {"JAVA_HOME": ""}])
def test_path_is_looked_at_where_java_home_is_not_set_or_empty(tmp_path: Path, environ: dict[str, str]) -> None:
    on_path = java_home(tmp_path, GOOD.replace("17.0.15", "21.0.2"))

    found = find_java({**environ, "PATH": str(on_path / "bin")})

    assert (found.executable, found.version, found.source) == (on_path / "bin" / "java", "21.0.2", "PATH")


def test_a_wrong_java_home_is_an_error_even_with_a_good_java_on_path(tmp_path: Path) -> None:
    on_path = java_home(tmp_path / "path", GOOD)

    with pytest.raises(JavaUnusableError, match=r"JAVA_HOME=/no/such/jdk, but there is no program .*unset JAVA_HOME"):
        find_java({"JAVA_HOME": "/no/such/jdk", "PATH": str(on_path / "bin")})


def test_no_java_at_all_says_where_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(JavaUnusableError) as raised:
        find_java({"PATH": str(tmp_path)})

    for remedy in ("JAVA_HOME is not set", "no java on PATH", "apt install", "brew install", "sdk install"):
        assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "version"),
    [(JAVA_8, "1.8.0_402"), (GOOD.replace("17.0.15", "11.0.22"), "11.0.22")],
    ids=["java-8", "java-11"],
)
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, answer: str, version: str) -> None:
    home = java_home(tmp_path, answer)

    with pytest.raises(JavaUnusableError, match=f"is Java {version}, and 17 or newer is needed") as raised:
        find_java({"JAVA_HOME": str(home)})

    assert raised.value.facts == {"source": f"JAVA_HOME={home}", "version": version}


@pytest.mark.parametrize("version", ["17", "21-ea", "25.0.1", "26"])
def test_every_way_to_write_a_newer_version_is_accepted(tmp_path: Path, version: str) -> None:
    home = java_home(tmp_path, GOOD.replace("17.0.15", version))

    assert find_java({"JAVA_HOME": str(home)}).version == version


def test_a_java_without_the_vector_module_is_refused(tmp_path: Path) -> None:
    home = java_home(tmp_path, 'echo "java.base@21.0.1"; echo "java.logging@21.0.1"')

    with pytest.raises(JavaUnusableError, match=r"Java 21\.0\.1, was built without the module jdk\.incubator\.vector"):
        find_java({"JAVA_HOME": str(home)})


def test_a_program_that_is_no_java_is_quoted(tmp_path: Path) -> None:
    on_path = java_home(tmp_path, MAC_STUB)

    with pytest.raises(JavaUnusableError, match="exit code 1, it said 'The operation could not be completed"):
        find_java({"PATH": str(on_path / "bin")})


def test_a_program_that_cannot_be_executed_is_an_error_of_ours(tmp_path: Path) -> None:
    home = java_home(tmp_path, GOOD)
    (home / "bin" / "java").write_bytes(b"\x7fELF not really")

    with pytest.raises(JavaUnusableError, match="cannot be started"):
        find_java({"JAVA_HOME": str(home)})


def test_the_java_of_this_machine_is_found_as_spark_would() -> None:
    found = find_java()

    assert found.executable.exists()
    assert int(found.version.split(".")[0]) >= 17
