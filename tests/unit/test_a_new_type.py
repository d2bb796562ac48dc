"""A new `type` of destination touches its folder and one row: that of `docs/contributing.md` is added, and counted."""

import ast
import difflib
import json
import re
import subprocess
from pathlib import Path

import pytest

from mirrorlake.config.destinations.registry import DESTINATION_TYPES
from mirrorlake.config.resolved import Configuration
from support.new_type import FOLDER, HERE, PACKAGE, REGISTRY, TOY, Extended, extended, row_of_the_guide
from support.python_sources import parsed
from support.tally.section import TallyDestination
from unit.config.config_texts import load, messages, native, refusals
from unit.test_imports import MAY_IMPORT, package_named

NAMES_IT = re.compile(r'"tally"|kinds[./]tally|Tally(Form|Destination|Kind|Work|Sink)')


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extended(tmp_path_factory.mktemp("extended"))


@pytest.fixture
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy's row in this process."""
    monkeypatch.setitem(DESTINATION_TYPES, "tally", HERE)


def files_of(package: Path) -> dict[str, str]:
    return {str(path.relative_to(package)): path.read_text() for path in sorted(package.rglob("*.py"))}


def mirror(destination: str, more: str = "") -> str:
    return native(f"""
        - name: m
          source: {{cluster: east, topics: [orders, payments]}}
          destinations: [{destination}]
          {more}
        """)


# --- what it touches ------------------------------------------------------------------------------------------


def test_what_the_guide_adds_is_its_folder_and_the_lines_of_one_row(toy: Extended) -> None:
    before, after = files_of(PACKAGE), files_of(toy.package)
    modules = sorted(module.name for module in TOY.glob("*.py"))
    assert sorted(after.keys() - before.keys()) == [f"{FOLDER}/{name}" for name in modules]
    assert [name for name in before if before[name] != after[name]] == [REGISTRY]
    difference = difflib.ndiff(before[REGISTRY].splitlines(), after[REGISTRY].splitlines())
    assert [line for line in difference if line[0] in "+-"] == [f"+ {line}" for line in row_of_the_guide().splitlines()]


def test_its_folder_and_its_row_alone_name_it(toy: Extended) -> None:
    naming = {name for name, text in files_of(toy.package).items() if NAMES_IT.search(text)}
    assert {name for name in naming if not name.startswith(f"{FOLDER}/")} == {REGISTRY}


def test_its_folder_passes_the_checks_of_style_that_the_package_passes(toy: Extended) -> None:
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [*toy.python, "-m", "ruff", *check, "--no-cache", "."],
            cwd=toy.package / FOLDER,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_its_folder_imports_downwards_as_kinds_do() -> None:
    packages = {
        package_named(str(node.module))
        for module in TOY.glob("*.py")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.ImportFrom)
    }
    assert packages - {None} == {"config", "core", "destinations", "kafka", "kinds", "topics"}
    assert packages - {None} <= MAY_IMPORT["kinds"] | {"kinds"}


# --- what a file may say of it --------------------------------------------------------------------------------


@pytest.mark.usefixtures("row")
def test_a_file_that_names_the_type_is_read_to_its_own_value() -> None:
    config: Configuration = load(mirror("{type: tally, folder: /var/tallies}, {type: kafka, cluster: west}"))
    (found,) = config.mirrors
    assert found.destinations[0] == TallyDestination(
        label="tallies", folder=Path("/var/tallies"), place=found.destinations[0].place
    )
    assert str(found.destinations[0].place) == "c.yaml:10: mirrors[0].destinations[0]"
    assert config.destination_types == ("tally", "kafka")
    assert ([each.label for each in found.kafka_destinations], found.archive_destinations) == (["west"], ())


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize(
    ("destination", "message"),
    [
        (
            "{type: taly, folder: /var/tallies}",
            f"mirrors[0].destinations[0].type: expected one of {', '.join(DESTINATION_TYPES)}, tally, found `taly` "
            "(did you mean `tally`?)",
        ),
        (
            "{type: tally}",
            "mirrors[0].destinations[0].folder: is required (add it; `mirrorlake config schema` describes it)",
        ),
        (
            "{type: tally, folder: /var/tallies, flder: x}",
            "mirrors[0].destinations[0].flder: is not a known field (did you mean `folder`?)",
        ),
        (
            "{type: tally, folder: tallies}",
            "mirrors[0].destinations[0].folder: `tallies` is a relative path "
            "(an archive's root is absolute, for example /var/lib/archive)",
        ),
    ],
)
def test_what_is_wrong_with_its_section_has_place_and_remedy(destination: str, message: str) -> None:
    assert messages(mirror(destination)) == [message]


@pytest.mark.usefixtures("row")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "filter: {where: \"key = 'a'\"}",
            "a filter cannot be had at tallies, which takes every record (use a mirror of its own without a filter)",
        ),
        (
            "select: {value: key}",
            "`select` cannot be had at tallies, which takes records as they are "
            "(use a mirror of its own without `select`)",
        ),
        (
            "on-recreate: restart",
            "`on-recreate: restart` deletes the copy, and tally tallies is never deleted (use `on-recreate: park`)",
        ),
    ],
)
def test_what_a_type_does_not_say_that_it_can_do_is_refused_at_once(more: str, message: str) -> None:
    (refusal,) = messages(mirror("{type: tally, folder: /var/tallies}", more))
    assert refusal.split(": ", 1)[1] == message


@pytest.mark.usefixtures("row")
def test_another_start_is_refused_and_schemas_that_nothing_would_keep() -> None:
    text = mirror("{type: tally, folder: /var/tallies}").replace("topics: [", "start: latest, topics: [")
    (refusal,) = messages(text)
    assert "`start: latest` cannot be had at tallies, which begins at `earliest` only" in refusal
    text = mirror("{type: tally, folder: /var/tallies}", "schemas: {from: e}") + 'registries: {e: {url: "http://e"}}\n'
    assert messages(text) == [
        "mirrors[0].schemas: has no meaning: no destination of the mirror keeps schemas (leave it out)"
    ]


@pytest.mark.usefixtures("row")
def test_two_mirrors_that_would_count_into_one_file_are_refused() -> None:
    text = native("""
        - {name: m, source: {cluster: east, topics: [orders]}, destinations: [{type: tally, folder: /var/tallies}]}
        - {name: n, source: {cluster: west, topics: [orders]}, destinations: [{type: tally, folder: /var/tallies}]}
        """)
    (refusal,) = refusals(text)
    assert "mirror n (topic orders) writes tally orders of tallies, as does mirror m (topic orders)" in refusal


# --- what is generated ----------------------------------------------------------------------------------------


def run(toy: Extended, *arguments: str) -> str:
    done = subprocess.run([*toy.python, *arguments], env=toy.environ, capture_output=True, text=True, check=True)
    return done.stdout


def test_schema_and_reference_have_the_type_from_its_row(toy: Extended) -> None:
    schema = json.loads(run(toy, "-m", "mirrorlake", "config", "schema"))
    assert schema["$defs"]["TallyForm"]["properties"]["type"]["const"] == "tally"
    selected = schema["$defs"]["MirrorForm"]["properties"]["destinations"]["items"]["discriminator"]["mapping"]
    assert [*selected] == sorted([*DESTINATION_TYPES, "tally"])
    page = run(toy, "-m", "docs.configuration_page")
    assert "### `mirrors[].destinations[]`, `type: tally`\n\nHow many records each partition has" in page
    assert "| `folder` | absolute path | **required** | Where the files are written. It has to be there. |" in page
