"""YAML with places: a tree of plain values, and the line and column of every key and value.

Scalars follow YAML 1.2 (``no``, ``on`` and ``12:30:00`` are text), which has no merge keys either; keys are always text
and unique.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from mirrorlake.config.expansion import ExpansionError, UnsetText, expand
from mirrorlake.config.problems import FieldPath, Place, ProblemList, field_name

Tree = None | bool | int | float | str | list["Tree"] | dict[str, "Tree"]

NODES_MAX = 200_000
"""More than any real file has. Bounds what aliases of aliases can blow up to."""
DEPTH_MAX = 64
"""Deeper than any field of ours; keeps a hostile file from exhausting the stack."""

MERGE_KEY = "<<"
_MERGE_HINT = (
    "write the fields out; or let an alias stand for a whole value (`west: *east`); what mirrors have in common may "
    "stand in `defaults`"
)
_NULL = re.compile(r"null|Null|NULL|~|")
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_DIGITS_MAX = 30
_COLLECTION_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!"}
_SCALAR_TAGS = {"tag:yaml.org,2002:str", "!"}


@dataclass(slots=True)
class Document:
    """A parsed file: its tree, where each path of it stands (of a mapping's entry: its key), and what is wrong.

    ``origins`` says where parts of the tree stand that were brought from elsewhere in the file (`resolve/sharing.py`).
    """

    file: str
    tree: Tree = None
    marks: dict[FieldPath, tuple[int, int]] = field(default_factory=dict)
    origins: dict[FieldPath, FieldPath] = field(default_factory=dict)
    problems: ProblemList = field(default_factory=ProblemList)

    def note(self, path: FieldPath, message: str, hint: str = "") -> None:
        """Keeps what is wrong with a field, beside what else is."""
        self.problems.add(self.place(path), message, hint)

    def place(self, path: FieldPath) -> Place:
        """Returns the place of a field; of one that is not there, that of the nearest one around it."""
        path = self._origin(path)
        known = path
        while known and known not in self.marks:
            known = known[:-1]
        line, column = self.marks.get(known, (0, 0))
        return Place(file=self.file, line=line, column=column, field=field_name(path))

    def _origin(self, path: FieldPath) -> FieldPath:
        """Returns where a part was brought from; it may have been brought there from a third place."""
        lengths = range(len(path), 0, -1)
        brought = next((path[:length] for length in lengths if path[:length] in self.origins), None)
        return path if brought is None else self._origin((*self.origins[brought], *path[len(brought) :]))


def read_document(content: bytes, *, file: str, environ: Mapping[str, str], problems: ProblemList) -> Document:
    """Returns the one document of a YAML file, environment variables filled in.

    Args:
        content: the file's bytes, UTF-8.
        file: its name, for places.
        environ: what ``${VAR}`` refers to.
        problems: takes syntax errors, unset variables and repeated keys; the tree holds what could be read.
    """
    document = Document(file=file, problems=problems)
    try:
        # The base loader resolves nothing: what a plain scalar means is decided in this module.
        root = yaml.compose(content.decode("utf-8-sig"), Loader=yaml.BaseLoader)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problems.add(Place(file=file, line=line, column=1, field=""), "not UTF-8", "save the file as UTF-8")
    except yaml.MarkedYAMLError as error:
        problems.add(_syntax_place(file, error), f"not YAML: {_syntax_message(error)}", _syntax_hint(error))
    except yaml.reader.ReaderError as error:
        message = f"not YAML: a character that is not allowed in it (#x{int(error.character):04x})"
        problems.add(Place(file=file, line=0, column=0, field=""), message)
    except RecursionError:
        problems.add(Place(file=file, line=0, column=0, field=""), f"nested deeper than {DEPTH_MAX} levels")
    else:
        if root is not None:
            document.tree = _Reader(document, environ).read(root, ())
    return document


def _syntax_place(file: str, error: yaml.MarkedYAMLError) -> Place:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return Place(file=file, line=line, column=column, field="")


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    # Never the mark's snippet: it repeats the file's text, which may hold a secret.
    return ", ".join(part for part in (error.context, error.problem) if part) or "it cannot be parsed"


def _syntax_hint(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if "'\\t'" in problem:
        return "indent with spaces, not with tabs"
    if "another document" in problem:
        return "one file holds one document: remove the second `---`"
    if "got '{'" in problem:
        return "inside [ ] and { } put ${…} in quotes"
    if "cannot start any token" in problem or error.context in ("while scanning an alias", "while scanning an anchor"):
        return "a text that begins with this sign is put in quotes"
    if "mapping values are not allowed" in problem:
        return "a line is not indented like its block, or a text that holds `: ` needs quotes"
    if error.context_mark is None:
        return ""
    begun = error.context_mark.line + 1
    if "expected <block end>" in problem:
        return f"a line is not indented like its block, see line {begun}"
    if "expected ',' or" in problem:
        return f"the bracket opened on line {begun} is not closed, or a comma is missing"
    return ""


class _Reader:
    """Turns nodes into values and notes their places."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self._nodes_left = NODES_MAX

    def read(self, node: yaml.Node, path: FieldPath) -> Tree:
        """Returns the value of a node; what cannot be read becomes a problem and an ``UnsetText``."""
        self._document.marks.setdefault(path, _mark(node))
        if not self._is_affordable(path):
            return UnsetText()
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag not in _COLLECTION_TAGS:
            return self._refuse_tag(node, path)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]

    def _is_affordable(self, path: FieldPath) -> bool:
        if self._nodes_left < 0:
            return False
        self._nodes_left -= 1
        if self._nodes_left >= 0 and len(path) <= DEPTH_MAX:
            return True
        # Said once and then given up: a file that is too deep is so in a thousand places.
        is_deep = len(path) > DEPTH_MAX
        limit = f"nested deeper than {DEPTH_MAX} levels" if is_deep else f"more than {NODES_MAX} values"
        self._document.note(path[:4], limit, "an alias may refer to itself, or aliases multiply")
        self._nodes_left = -1
        return False

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> Tree:
        values: dict[str, Tree] = {}
        is_merged = False
        for key_node, value_node in node.value:
            line, column = _mark(key_node)
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            name = field_name(path if key is None else (*path, key))
            place = Place(file=self._document.file, line=line, column=column, field=name)
            if key is None:
                self._document.problems.add(place, "a key must be text")
            elif key == MERGE_KEY and key_node.style is None:
                self._document.problems.add(place, "merge keys are not supported", _MERGE_HINT)
                is_merged = True
            elif key in values:
                first_line = self._document.place((*path, key)).line
                self._document.problems.add(place, f"is there twice, first on line {first_line}", "remove one of them")
            else:
                self._document.marks[*path, key] = (line, column)
                values[key] = self.read(value_node, (*path, key))
        # What would have been merged is not missing.
        return UnsetText() if is_merged else values

    def _scalar(self, node: yaml.ScalarNode, path: FieldPath) -> Tree:
        text = str(node.value)
        if node.tag not in _SCALAR_TAGS:
            return self._refuse_tag(node, path)
        try:
            expanded = expand(text, self._environ)
        except ExpansionError as error:
            self._document.note(path, str(error), error.hint)
            return UnsetText()
        return _plain_value(text) if node.style is None and expanded is text else expanded

    def _refuse_tag(self, node: yaml.Node, path: FieldPath) -> UnsetText:
        tag = node.tag.replace("tag:yaml.org,2002:", "!!")
        self._document.note(path, f"the tag {tag} is not known here", "remove it")
        return UnsetText()


def _mark(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _plain_value(text: str) -> Tree:
    """Returns what an unquoted scalar means by the core schema of YAML 1.2 (yaml.org/spec/1.2.2, §10.3.2)."""
    if _NULL.fullmatch(text):
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) > _DIGITS_MAX:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text
