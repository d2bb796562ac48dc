"""The texts that users read name their subject and use Kafka's words: errors, hints, log events, help and pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from support.python_sources import parsed

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

BANNED = {
    "is open, is parked": r"\bst(?:ands?|ood) (?:open|parked)\b",
    "continues": r"\b(?:go|goes|going|gone|went) on\b",
    "a subject with a name": r"\bwhom?ever\b|(?:^|[.:;|] )what (?:is|was|are|were|ha[sd]|it|they|another|one)\b",
    "recreated": r"\bmade again\b",
    "unknown producer": r"\bstrangers?\b",
    "participant": r"\bseats?\b",
    "producer hand-off": r"\bhand(?:s|ed|ing)? (?:it )?on\b",
    "maintenance": r"\bupkeep\b",
    "source continuity, leader-epoch check": r"\bsuccession\b|\blineage\b",
    "passes through": r"\buntouched\b",
}
"""What to say instead, and what not to say."""

ALLOWED: frozenset[str] = frozenset()
"""Sentences in which one of them is right after all; none so far."""


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The string literals that may be shown, by line. Docstrings are for who reads the code, but for a command's."""
    hidden = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    hidden |= {id(part) for each in ast.walk(tree) if isinstance(each, ast.JoinedStr) for part in each.values}
    hidden -= {
        id(each.body[0].value) for each in ast.walk(tree) if _is_command(each) and isinstance(each.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in hidden:
            text = " ".join(_shown(node).split())
            if " " in text:
                yield node.lineno, text


def _is_command(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """Tells whether the command line shows a function's docstring as help."""
    return isinstance(node, ast.FunctionDef) and any(
        re.search(r"\.(command|callback)\(", ast.unparse(each)) for each in node.decorator_list
    )


def _shown(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def prose(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs of a page by their first line, without code: that may name a test or a setting."""
    is_code, first, paragraph = False, 1, ""
    for number, line in enumerate([*page.splitlines(), ""], 1):
        begins = not line.strip() or re.match(r"\s*([-*|#]|\d+\.|```)", line)
        if begins and paragraph:
            yield first, re.sub(r"`[^`]*`", "…", paragraph)
        is_code ^= line.lstrip().startswith("```")
        if is_code or line.lstrip().startswith("```"):
            paragraph = ""
        elif begins:
            first, paragraph = number, line.strip()
        else:
            first, paragraph = (first, f"{paragraph} {line.strip()}") if paragraph else (number, line.strip())


def objections(texts: Iterator[tuple[int, str]]) -> list[str]:
    """What is banned in the texts, each with its line and what to say instead."""
    return [
        f"line {number}: {text!r} (say: {instead})"
        for number, text in texts
        for instead, pattern in BANNED.items()
        if text not in ALLOWED and re.search(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT / "src")) for path in SOURCES])
def test_what_the_program_says_is_free_of_banned_phrases(path: Path) -> None:
    assert objections(literals(parsed(path))) == []


@pytest.mark.parametrize("path", PAGES, ids=[path.name for path in PAGES])
def test_pages_are_free_of_banned_phrases(path: Path) -> None:
    assert objections(prose(path.read_text(encoding="utf-8"))) == []


def test_every_banned_phrase_is_found_where_it_is() -> None:
    said = [
        "a transaction stands open on t-0",
        "the copy goes on",
        "stop whoever writes there",
        "What is lost is copied again.",
        "it failed; what was sent is unknown",
        "the topic was made again",
        "a stranger wrote",
        "a seat in the transaction",
        "what a lease hands on",
        "the upkeep of an archive",
        "the lineage of a log",
        "it goes through untouched",
    ]
    assert [text for text in said if not objections(iter([(1, text)]))] == []
    source = 'def f():\n    """It goes on."""\n    raise E(f"offset {x} goes " "on", hint="it goes on")\n'
    assert [line for line, _ in literals(ast.parse(source))] == [3, 3]
    assert len(objections(literals(ast.parse(source)))) == 2
    help_text = '@app.command()\ndef run() -> None:\n    """Mirrors while it goes\n    on."""\n'
    assert len(objections(literals(ast.parse(help_text)))) == 1
    assert objections(prose("`goes on`\n```\ngoes on\n```\nfine")) == []
    assert [text.partition(":")[0] for text in objections(prose("# A\n\nfine\n\nit goes\non\n- it goes on\n"))] == [
        "line 5",
        "line 7",
    ]


def test_every_allowed_sentence_is_still_there() -> None:
    texts = {text for path in SOURCES for _, text in literals(parsed(path))}
    texts |= {line for path in PAGES for _, line in prose(path.read_text(encoding="utf-8"))}
    assert texts >= ALLOWED
