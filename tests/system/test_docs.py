"""What the documents show must work: configurations are loaded, commands exist, links lead somewhere."""

import re
from itertools import takewhile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirrorlake.cli.main import app
from mirrorlake.config.loading import parse_configuration

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")])


def blocks(language: str) -> list[tuple[str, str]]:
    """Code blocks of a language in all pages, without the indentation of a list."""
    found = []
    for page in PAGES:
        for match in re.finditer(rf"^( *)```{language}\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
            indent = len(match[1])
            text = "".join(line[indent:] if line.strip() else line for line in match[2].splitlines(keepends=True))
            found.append((f"{page.name}@{match.start()}", text))
    return found


CONFIGURATIONS = [(name, text) for name, text in blocks("yaml") if "mirrors:" in text and "clusters:" in text]
COMMANDS = sorted(
    {line[2:].split("#")[0].strip() for _, text in blocks("console") for line in text.splitlines() if line[:2] == "$ "}
)


@pytest.mark.parametrize(("name", "text"), CONFIGURATIONS, ids=[name for name, _ in CONFIGURATIONS])
def test_every_configuration_shown_is_valid(name: str, text: str) -> None:
    assert parse_configuration(text.encode(), file=name, environ={}).mirrors


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("mirrorlake ")])
def test_every_command_shown_exists_with_its_options(command: str) -> None:
    words = command.split()[1:]
    verb = list(takewhile(str.isalpha, words))
    help_text = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for option in (word for word in words if word.startswith("-")):
        assert option in help_text, command


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_every_make_target_shown_exists(command: str) -> None:
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_every_module_that_a_page_names_with_its_folder_is_there(page: Path) -> None:
    for module in re.findall(r"`(\w[\w/]*/\w+\.py)`", page.read_text()):
        assert any((folder / module).exists() for folder in (ROOT, ROOT / "src" / "mirrorlake", ROOT / "tests")), module


def test_something_is_checked_at_all() -> None:
    assert len(CONFIGURATIONS) >= 3
    assert len(COMMANDS) >= 6
