"""What the short form of the suite leaves out, and that CI leaves out nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
LAWS = (REPOSITORY / "docs" / "laws.md").read_text().split("\n## Appendix", 1)[1]
ROWS = [line for line in LAWS.splitlines() if re.match(r"\| \d\. ", line)]
FOLDERS = ("contract", "fault", "golden", "integration", "system")
NAMED = re.compile(rf"`((?:unit|{'|'.join(FOLDERS)})/[^`:]+\.py)(::[^`]+)?`")
FILES = [path for folder in FOLDERS for path in sorted((TESTS / folder).rglob("test_*.py"))]

CONFTEST = """
from pathlib import Path
from support.short_form import short_form

def pytest_collection_modifyitems(items):
    items[:] = short_form(items, Path(__file__).parent).chosen
"""
PLAIN = """
import pytest

def test_alone(): ...

@pytest.mark.slow
def test_alone_and_slow(): ...

@pytest.mark.parametrize("store", ["s3", "folder"])
@pytest.mark.parametrize("form", ["parquet", "log", "ndjson"])
def test_table(form, store): ...

@pytest.mark.parametrize("form", [pytest.param("parquet", marks=pytest.mark.slow), "log", "ndjson"])
def test_table_whose_first_case_is_slow(form): ...

class TestTogether:
    @pytest.mark.parametrize("number", [1, 2])
    def test_table(self, number): ...
"""
SLOW = """
import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

def test_long(): ...

@pytest.mark.quick
def test_that_is_quick(): ...

@pytest.mark.quick
@pytest.mark.parametrize("number", [1, 2])
def test_table_that_is_quick(number): ...
"""
CHOSEN_OF_PLAIN = [
    "test_alone",
    "test_table[parquet-s3]",
    "test_table_whose_first_case_is_slow[log]",
    "TestTogether::test_table[1]",
]
CHOSEN_OF_SLOW = ["test_that_is_quick", "test_table_that_is_quick[1]"]


def collected(folder: Path, *arguments: str, ci: str | None = None) -> list[str]:
    """The tests that a pytest of its own would run, by their node ids."""
    environ = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    environ |= {"PYTHONPATH": str(TESTS)} | ({} if ci is None else {"CI": ci})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def of_the_laws() -> list[str]:
    """The files with the tests that the laws name, as arguments."""
    return sorted({f"tests/{path}" for path, _ in NAMED.findall("".join(ROWS))})


@pytest.fixture(scope="module")
def short(of_the_laws: list[str]) -> set[str]:
    return {each.partition("[")[0] for each in collected(REPOSITORY, "--short", *of_the_laws)}


def test_of_a_table_the_first_case_runs_and_nothing_slow_unless_it_is_quick(tmp_path: Path) -> None:
    for name, text in {"conftest.py": CONFTEST, "fault/test_plain.py": PLAIN, "system/test_slow.py": SLOW}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    expected = [f"fault/test_plain.py::{name}" for name in CHOSEN_OF_PLAIN]
    expected += [f"system/test_slow.py::{name}" for name in CHOSEN_OF_SLOW]
    assert collected(tmp_path) == expected


def test_all_unit_tests_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "unit" / "archive").mkdir(parents=True)
    (tmp_path / "unit" / "archive" / "test_plain.py").write_text(PLAIN)
    assert len(collected(tmp_path)) == 1 + 1 + 6 + 3 + 2


@pytest.mark.parametrize("row", ROWS, ids=[row[2:40] for row in ROWS])
def test_every_law_has_a_test_in_the_short_form_and_with_real_servers_where_it_names_one(
    row: str, short: set[str]
) -> None:
    named = {f"tests/{path}{test}" for path, test in NAMED.findall(row)}
    chosen = {name for name in named if name in short or any(each.startswith(f"{name}::") for each in short)}
    assert chosen
    if any("/unit/" not in name for name in named):
        assert any("/unit/" not in name for name in chosen)


def test_in_ci_nothing_is_left_out(of_the_laws: list[str], short: set[str]) -> None:
    everything = collected(REPOSITORY, *of_the_laws)
    assert collected(REPOSITORY, "--short", *of_the_laws, ci="true") == everything
    assert {each.partition("[")[0] for each in everything} > short


def test_ci_runs_make_test_and_make_test_all_runs_the_same_without_the_choice() -> None:
    script = (REPOSITORY / ".ci" / "run").read_text()
    assert re.search(r"^export CI=true\nexec make test$", script, re.MULTILINE)
    test, test_all = (_pytest_of(target) for target in ("test", "test-all"))
    assert test == f"{test_all} --short"


def _pytest_of(target: str) -> str:
    command = ["make", "--dry-run", "--no-print-directory", target]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if "pytest -n" in line)
    return line.strip()


def test_marks_stand_where_they_choose_something() -> None:
    """All unit tests run, and what is quick is so in a slow file."""
    unit = [path for path in sorted((TESTS / "unit").rglob("test_*.py")) if path != Path(__file__)]
    assert [path.name for path in unit if re.search(r"pytest\.mark\.(slow|quick)\b", path.read_text())] == []
    assert [path.name for path in FILES if "@pytest.mark.quick" in path.read_text() and not _is_slow(path)] == []


def test_every_folder_of_tests_has_some_in_the_short_form() -> None:
    folders = {path.parent for path in FILES}
    chosen = {path.parent for path in FILES if not _is_slow(path) or "@pytest.mark.quick" in path.read_text()}
    assert folders - chosen == set()


def _is_slow(file: Path) -> bool:
    return re.search(r"^pytestmark = .*pytest\.mark\.slow\b", file.read_text(), re.MULTILINE) is not None
