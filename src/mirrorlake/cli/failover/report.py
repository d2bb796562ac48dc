"""What ``failover`` and ``failback`` print: some tables, or one object with the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.cli.groups.sync import COLUMNS as GROUP_COLUMNS
from mirrorlake.cli.groups.sync import SyncPlan, rows_json
from mirrorlake.cli.output import Row, print_json, print_table, print_warning
from mirrorlake.cli.verify import columns_of, print_causes

if TYPE_CHECKING:
    from mirrorlake.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Section:
    """Rows by the key they have in JSON, with the title and the columns of their table."""

    key: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


def of_groups(groups: SyncPlan | None) -> Section:
    """Returns what is done about consumer groups; no rows where none are meant."""
    return Section("groups", "consumer groups", GROUP_COLUMNS, [] if groups is None else rows_json(groups))


def of_verdicts(verdicts: "Sequence[Verdict]") -> Section:
    """Returns how copies compare with their sources."""
    rows = [verdict.as_json() for verdict in verdicts]
    return Section("verified", "verified", columns_of(rows), rows)


def show(
    sections: Sequence[Section], *, decisions: Sequence[str] = (), remarks: Sequence[str] = (), as_json: bool
) -> None:
    """Prints the sections; of tables the first always, and the others where they have rows.

    Args:
        sections: in their order.
        decisions: what must be decided, which rows say in JSON.
        remarks: what must be said beside the rows.
        as_json: one object, with ``remarks`` where there are any.
    """
    if as_json:
        found: dict[str, object] = {section.key: section.rows for section in sections}
        print_json(found | ({"remarks": remarks} if remarks else {}))
        return
    for number, section in enumerate(sections):
        if section.rows or not number:
            print_table(section.rows, section.columns, title=section.title)
            print_causes(section.rows)
    for text in (*decisions, *remarks):
        print_warning(text)
