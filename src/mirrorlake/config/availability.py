"""What the configuration knows but this version cannot do: one table, and the refusal by name.

A feature that becomes available loses its row here; nothing else in the configuration knows about versions.
"""

from dataclasses import dataclass

from mirrorlake.config.document import Document
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import ProblemList


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """One setting this version refuses: where it stands, what to do instead, and the only values accepted."""

    where: tuple[str, str]
    remedy: str
    allowed: tuple[str, ...] = ()


UNAVAILABLE = (
    Unavailable(where=("service", "control"), allowed=("off",), remedy="leave it out, or use `control: off`"),
)
"""All rows. The remedies say what works today."""


def refuse_unavailable(document: Document, problems: ProblemList) -> None:
    """Notes every setting of the file this version cannot honour, whatever else is wrong with it."""
    for row in UNAVAILABLE:
        section, key = row.where
        around = document.tree.get(section) if isinstance(document.tree, dict) else None
        value = around.get(key) if isinstance(around, dict) else None
        if not (value is None or isinstance(value, UnsetText) or value in row.allowed):
            # The value is not repeated: it may be a secret.
            problems.add(document.place(row.where), f"`{key}` is not available in this version", row.remedy)
