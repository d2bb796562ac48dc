"""Imports go downwards only, and the command line starts without loading what it may not need."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import mirrorlake
from support.python_sources import parsed

PACKAGE = Path(mirrorlake.__file__).parent

# One line per package: what it may import besides itself. "core" are the modules at the top of the package.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "kafka": {"core"},
    "stores": {"core"},
    "schemas": {"core"},
    "filters": {"core", "kafka"},
    "config": {"core", "kafka", "stores", "schemas", "filters"},
    "embedded": {"core"},
    "archive": {"core", "stores", "kafka", "schemas"},
    "destinations": {"core", "kafka", "stores", "archive", "filters"},
    "sources": {"core", "kafka", "stores", "archive", "destinations"},
    "mirror": {"core", "kafka", "stores", "config", "archive", "destinations", "sources"},
    "pipeline": {"core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror"},
    "topics": {"core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror"},
    "kinds": {"core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror", "topics"},
    "groups": {"core", "kafka", "stores", "config", "archive", "destinations", "sources", "topics"},
    "service": {
        *("core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror", "pipeline", "topics"),
        *("kinds", "groups", "schemas"),
    },
    "verify": {
        *("core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror", "pipeline", "topics"),
        *("kinds", "service"),
    },
    "spark_source": {"core", "kafka", "stores", "config", "archive", "pipeline"},
    "demo": {"core", "kafka", "archive", "embedded"},
    "cli": {
        *("core", "kafka", "stores", "config", "archive", "destinations", "sources", "mirror", "pipeline", "topics"),
        *("service", "kinds", "groups", "schemas", "verify", "spark_source", "embedded", "demo"),
    },
}

# The rooms of a package whose rooms are layers too: what each may import of its siblings. Modules of the package that
# are in no room lie below all of them.
ROOMS_MAY_IMPORT: dict[str, dict[str, set[str]]] = {
    "kafka": {
        "wire": set(),
        "records": set(),
        "schema_ids": {"records"},
        "security": {"wire"},
        "control": {"wire", "security", "records"},
    },
    "sources": {"kafka": set(), "archive": set()},
    "destinations": {
        "transactions": set(),
        "archive": set(),
        "letters": {"transactions"},
        "preserve": {"transactions", "letters"},
        "map": {"transactions", "letters"},
        "snapshots": {"archive"},
    },
}

# Libraries that stay behind one door: which packages or modules may import them.
ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"pipeline", "spark_source"},
    "kafka": {"kafka"},
    "obstore": {"stores"},
    "httpx": {"schemas"},
    "sqlglot": {"filters"},
    "typer": {"cli"},
    "rich": {"cli"},
}

HEAVY = ("pyspark", "numba", "pyarrow", "pandas", "numpy", "kafka", "fastapi", "aiokafka", "httpx", "sqlglot")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def package_of(module: Path) -> str:
    inside = module.relative_to(PACKAGE).parts
    if inside == ("__main__.py",):
        return "cli"  # `python -m mirrorlake`
    if inside == ("spark.py",):
        return "spark_source"  # its public door
    return inside[0] if len(inside) > 1 else "core"


@cache
def imported_names(module: Path) -> tuple[tuple[str, int], ...]:
    """Every absolute name the file's import statements lead to with its line, TYPE_CHECKING and local ones included."""
    return tuple(_imported_names(module))


def _imported_names(module: Path) -> Iterator[tuple[str, int]]:
    here = ("mirrorlake", *module.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level]) if node.level else ""
            name = ".".join(part for part in (base, node.module or "") if part)
            # `from mirrorlake import kafka` names the package only in the second half.
            yield from ((f"{name}.{alias.name}", node.lineno) for alias in node.names)


def package_named(name: str) -> str | None:
    """The package of ours a dotted name leads into; None for other people's and for the root itself."""
    parts = name.split(".")
    if parts[0] != "mirrorlake" or len(parts) < 2:
        return None
    if (PACKAGE / parts[1]).is_dir():
        return parts[1]
    module = PACKAGE / f"{parts[1]}.py"
    return package_of(module) if module.exists() else None


def test_the_table_names_every_package() -> None:
    present = {package_of(module) for module in modules()}

    assert present <= MAY_IMPORT.keys()


def test_the_table_has_no_circle() -> None:
    settled: set[str] = set()
    while len(settled) < len(MAY_IMPORT):
        ready = {package for package, below in MAY_IMPORT.items() if below <= settled} - settled
        assert ready, f"these import each other in a circle: {sorted(MAY_IMPORT.keys() - settled)}"
        settled |= ready


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative_to(PACKAGE)))
def test_imports_go_downwards(module: Path) -> None:
    package = package_of(module)
    allowed = MAY_IMPORT[package] | {package}

    upwards = [
        f"line {line}: {name}"
        for name, line in imported_names(module)
        if (target := package_named(name)) is not None and target not in allowed
    ]

    assert upwards == []


@pytest.mark.parametrize("package", ROOMS_MAY_IMPORT)
def test_imports_between_rooms_go_downwards(package: str) -> None:
    rooms = ROOMS_MAY_IMPORT[package]
    assert {path.name for path in (PACKAGE / package).iterdir() if (path / "__init__.py").exists()} == rooms.keys()

    upwards = [
        f"{module.relative_to(PACKAGE)}:{line}: {name}"
        for module in modules()
        if module.relative_to(PACKAGE).parts[0] == package
        for name, line in imported_names(module)
        if name.startswith(f"mirrorlake.{package}.")
        and (target := name.split(".")[2]) in rooms
        and target != (room := module.relative_to(PACKAGE).parts[1])
        and target not in rooms.get(room, set())
    ]

    assert upwards == []


BY_NAME = re.compile(r'"(mirrorlake(?:\.\w+)+):\w+"')


def test_names_that_are_imported_later_lead_downwards_too_but_for_the_rows_of_destination_types() -> None:
    upwards = {
        str(module.relative_to(PACKAGE)): target
        for module in modules()
        for name in BY_NAME.findall(module.read_text())
        if (target := package_named(name)) not in MAY_IMPORT[package_of(module)] | {package_of(module)}
    }

    assert upwards.keys() == {"config/destinations/registry.py"}


def test_one_module_knows_of_what_kind_a_source_is() -> None:
    knows = {
        str(module.relative_to(PACKAGE))
        for module in modules()
        for name, _ in imported_names(module)
        if name.startswith("mirrorlake.sources.kafka.")
        and module.relative_to(PACKAGE).parts[:2] != ("sources", "kafka")
    }

    assert knows == {"topics/sources.py"}


FLAT_MODULES_MAX = 23


def test_no_folder_holds_more_modules_than_a_reader_takes_in() -> None:
    folders = {path.parent for path in modules()}
    sizes = {str(each.relative_to(PACKAGE)): len([*each.glob("*.py")]) - 1 for each in folders}

    assert {folder: size for folder, size in sizes.items() if size > FLAT_MODULES_MAX} == {}


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_behind_its_door(library: str) -> None:
    strays = [
        f"{module.relative_to(PACKAGE)}:{line}"
        for module in modules()
        for name, line in imported_names(module)
        if name.split(".")[0] == library and package_of(module) not in ONLY_IN[library]
    ]

    assert strays == []


@pytest.mark.parametrize("entry", ["mirrorlake", "mirrorlake.cli.main", "mirrorlake.embedded.kafka_server"])
def test_importing_an_entry_point_loads_nothing_heavy(entry: str) -> None:
    script = f"import {entry}, sys; print(*sorted(set({HEAVY!r}) & sys.modules.keys()))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []


@pytest.mark.parametrize("module", ["archives.reports", "plan.planning", "status", "run"])
def test_a_command_that_looks_at_mirrors_or_archives_starts_without_pandas(module: str) -> None:
    script = f"import mirrorlake.service.{module}, sys; print('pandas' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False"]
