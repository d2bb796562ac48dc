"""What the configuration knows but this version cannot do: one table, and the refusal by name.

A feature that becomes available loses its row here; nothing else in the configuration knows about versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import FieldPath, ProblemList


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """One setting this version refuses.

    ``where`` are patterns of the path, ``*`` standing for any key or index. ``values`` are those refused,
    ``allowed`` the only ones accepted; with neither, the field must not be set at all.
    """

    where: tuple[str, ...]
    remedy: str
    values: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    def refuses(self, value: Tree) -> bool:
        """Tells whether a value that is set is one this version cannot honour."""
        if value is None or isinstance(value, UnsetText):
            return False
        if self.values:
            return value in self.values
        return value not in self.allowed


UNAVAILABLE = (
    Unavailable(where=("engine", "master"), remedy="leave it out: the engine runs on one machine"),
    Unavailable(where=("service", "control"), allowed=("off",), remedy="leave it out, or use `control: off`"),
)
"""All rows. The remedies say what works today."""


def refuse_unavailable(document: Document, problems: ProblemList) -> None:
    """Notes every setting of the file this version cannot honour, whatever else is wrong with it."""
    for row in UNAVAILABLE:
        for path, value in _matches(document.tree, row.where, ()):
            if row.refuses(value):
                message = f"{_setting(path, value, row)} is not available in this version"
                problems.add(document.place(path), message, row.remedy)


def _setting(path: FieldPath, value: Tree, row: Unavailable) -> str:
    # Only values that stand in the table itself are repeated; others may be secrets.
    key = str(path[-1])
    return f"`{key}: {value}`" if value in row.values else f"`{key}`"


def _matches(tree: Tree, where: tuple[str, ...], path: FieldPath) -> Iterator[tuple[FieldPath, Tree]]:
    if not where:
        yield path, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if fnmatchcase(key, where[0]):
                yield from _matches(value, where[1:], (*path, key))
    elif isinstance(tree, list) and where[0] == "*":
        for index, value in enumerate(tree):
            yield from _matches(value, where[1:], (*path, index))
