"""What the configuration knows but this version cannot do: one table, and the refusal by name.

A feature that becomes available loses its row here; nothing else in the configuration knows about versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import FieldPath

EACH = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """One setting this version refuses: where it stands, what to do instead, and the only values accepted.

    In ``where`` `EACH` stands for every item of a list.
    """

    where: tuple[str, ...]
    remedy: str
    allowed: tuple[str, ...] = ()


UNAVAILABLE = (
    Unavailable(where=("service", "control"), allowed=("off",), remedy="leave it out, or use `control: off`"),
)
"""All rows. The remedies say what works today."""


def refuse_unavailable(document: Document) -> None:
    """Notes every setting of the file this version cannot honour, whatever else is wrong with it."""
    for row in UNAVAILABLE:
        for path, value in _values_at(document.tree, row.where):
            if not (value is None or isinstance(value, UnsetText) or value in row.allowed):
                # The value is not repeated: it may be a secret.
                document.note(path, f"`{path[-1]}` is not available in this version", row.remedy)


def _values_at(tree: Tree, where: tuple[str, ...], path: FieldPath = ()) -> Iterator[tuple[FieldPath, Tree]]:
    """Yields what stands at a place of the file, with its path; nothing where there is no such place."""
    if not where:
        yield path, tree
    elif where[0] == EACH:
        for index, item in enumerate(tree if isinstance(tree, list) else ()):
            yield from _values_at(item, where[1:], (*path, index))
    elif isinstance(tree, dict) and where[0] in tree:
        yield from _values_at(tree[where[0]], where[1:], (*path, where[0]))
