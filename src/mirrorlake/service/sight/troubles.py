"""Errors of many partitions that are one trouble: told in one line, with how many partitions have it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NAMED_MAX = 10
"""Partitions that one line names."""

Fact = str | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What a line about one failure says: the event, and its facts in their order.

    ``partition`` is the partition's name, empty where a whole topic is meant. ``own`` are facts that may be others for
    each partition, left out where they are.
    """

    event: str
    is_final: bool
    partition: str
    facts: Mapping[str, Fact]
    own: Mapping[str, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the log: an error where ``is_final``, else a warning."""

    event: str
    is_final: bool
    facts: Mapping[str, Fact]


def lines_of(troubles: Iterable[Trouble]) -> list[Line]:
    """Returns one line for each kind of trouble, in the order of their first partitions.

    Two are of one kind where everything is the same but the partition and its name in the message; of what is tried
    again also the topic. What is final is told for each topic: somebody has to act there, and looks for its name.
    """
    groups: dict[tuple[object, ...], list[Trouble]] = {}
    for trouble in troubles:
        groups.setdefault(_kind_of(trouble), []).append(trouble)
    return [_line(group) for group in groups.values()]


def _kind_of(trouble: Trouble) -> tuple[object, ...]:
    left_out = ("partition",) if trouble.is_final else ("topic", "partition")
    same = {name: fact for name, fact in trouble.facts.items() if name not in left_out}
    if trouble.partition and isinstance(error := same.get("error"), str):
        same["error"] = error.replace(trouble.partition, "")
    return (trouble.event, trouble.is_final, *same.items())


def _line(group: list[Trouble]) -> Line:
    first = group[0]
    if len(group) == 1:
        return Line(event=first.event, is_final=first.is_final, facts={**first.facts, **first.own})
    topics = {trouble.facts.get("topic") for trouble in group}
    left_out = {"partition"} if len(topics) == 1 else {"partition", "topic"}
    names = [trouble.partition or str(trouble.facts.get("topic")) for trouble in group]
    which = ", ".join(names[:NAMED_MAX]) + (" …" if len(names) > NAMED_MAX else "")
    facts = {name: fact for name, fact in first.facts.items() if name not in left_out}
    facts |= {name: fact for name, fact in first.own.items() if all(each.own.get(name) == fact for each in group)}
    return Line(event=first.event, is_final=first.is_final, facts={**facts, "partitions": len(group), "which": which})
