"""A setting that a page or a message names is one that the configuration has."""

import ast
import re
from pathlib import Path

import pytest

from mirrorlake.config.common_form import EngineForm, ServiceForm
from mirrorlake.config.section import Section
from support.python_sources import parsed

ROOT = Path(__file__).parents[3]
FILES = [
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
]
SECTIONS: dict[str, type[Section]] = {"engine": EngineForm, "service": ServiceForm}
SETTINGS = {
    f"{name}.{field.alias or key}" for name, form in SECTIONS.items() for key, field in form.model_fields.items()
}
NAMED = re.compile(r"(?<![\w./-])(?:engine|service)\.[a-z-]+(?:\.[a-z-]+)*(?![\w(/-])")


def named_in(path: Path) -> set[str]:
    """What looks like a setting in a page, or in the strings of a module."""
    if path.suffix == ".md":
        texts = [path.read_text(encoding="utf-8")]
    else:
        nodes = ast.walk(parsed(path))
        texts = [each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return {found for text in texts for found in NAMED.findall(text) if not found.endswith((".py", ".yaml"))}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_every_setting_that_is_named_is_one(path: Path) -> None:
    assert named_in(path) - SETTINGS == set()


def test_a_name_that_a_module_was_given_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`service.sight.metrics` and `engine.lanes`; see service.py and mirrorlake.service.run")
    assert named_in(page) == {"service.sight.metrics", "engine.lanes"}
