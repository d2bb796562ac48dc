"""What commands show of subjects: rows of tables and of JSON. Pure."""

from collections.abc import Sequence
from uuid import UUID

from mirrorlake.kafka.schema_ids.framing import Framing
from mirrorlake.kafka.schema_ids.id_map import SchemaName
from mirrorlake.schemas.mirroring import side_by_side
from mirrorlake.schemas.plan import Action, SubjectPlan
from mirrorlake.service.subjects.id_places import IdPlace
from mirrorlake.service.subjects.planning import WayPlan
from mirrorlake.service.subjects.record_ids import READABLE, WayIds

Row = dict[str, str | int | None]
DIGEST_LENGTH = 12


def action_rows(each: WayPlan) -> list[Row]:
    """Returns a row for each change, in the order in which they are made."""
    return [
        {
            **_of(each),
            "subject": action.subject,
            "action": action.kind.value,
            "version": None if action.version is None else action.version.version,
            "id": action.id,
            "schema": _digest(action),
            "value": action.value or None,
            "note": action.why or None,
        }
        for action in each.actions
    ]


def open_rows(each: WayPlan) -> list[Row]:
    """Returns a row with an ``error`` for each subject that is refused and for all that could not be found out."""
    refused = [
        {
            **_of(each),
            "subject": plan.destination.subject,
            "action": "refuse",
            "error": f"{plan.refusal.reason} ({plan.refusal.hint})",
        }
        for plan in (each.plan.refused if each.plan else ())
        if plan.refusal is not None
    ]
    unknown = [{**_of(each), "subject": None, "action": "unknown", "error": str(error)} for error in each.failures]
    return [*refused, *unknown]


def open_json(each: WayPlan) -> list[dict[str, object]]:
    """Returns the same for JSON: a row of a refused subject has both its ``histories``."""
    refused = {plan.destination.subject: plan for plan in (each.plan.refused if each.plan else ())}
    rows: list[dict[str, object]] = []
    for row in open_rows(each):
        plan = refused.get(str(row["subject"]))
        rows.append({**row} if plan is None else {**row, "histories": side_by_side(plan)})
    return rows


def history_rows(plans: Sequence[SubjectPlan]) -> list[Row]:
    """Returns both histories of subjects, equal schemas in one row."""
    return [row for plan in plans for row in side_by_side(plan)]


def subject_rows(each: WayPlan) -> list[Row]:
    """Returns a row for each subject: how many versions each side has, and whether anything is to be done."""
    if each.plan is None:
        return []
    return [
        {
            **_of(each),
            "subject": plan.source.subject,
            "to": plan.destination.subject,
            "versions": len(plan.source.live),
            "versions_there": len(plan.destination.live),
            "level": plan.source.level,
            "level_there": plan.destination.level,
            "mode_there": plan.destination.mode,
            "state": _state(plan),
        }
        for plan in each.plan.plans
    ]


def record_rows(each: WayIds) -> list[Row]:
    """Returns a row for each topic and side: how many records carry what, and where the first unreadable one is."""
    rows: list[Row] = []
    for (topic, side), found in sorted(each.sides.items()):
        first = min((place for framing, place in found.first.items() if framing not in READABLE), default=None)
        rows.append(
            {
                "name": each.way.mirror,
                "destination": each.way.destination,
                "topic": topic,
                "side": side,
                **{framing.value: found.records[framing] for framing in Framing if framing is not Framing.UNKNOWN},
                "unreadable_partition": None if first is None else first[0],
                "unreadable_offset": None if first is None else first[1],
            }
        )
    return rows


def id_rows(each: WayIds) -> list[Row]:
    """Returns a row for each id and GUID the records carry: what it means at the source, and what it is there."""
    return [
        {
            "name": each.way.mirror,
            "destination": each.way.destination,
            "id": _shown(id_),
            "subjects": ", ".join(f"{subject}:{version}" for subject, version in place.subjects) or None,
            "destination_id": _shown(place.there),
            "state": _id_state(place),
        }
        for id_, place in sorted(each.ids.items(), key=lambda item: (isinstance(item[0], UUID), item[0]))
    ]


def _shown(name: SchemaName | None) -> str | int | None:
    return str(name) if isinstance(name, UUID) else name


def failure_rows(each: WayIds) -> list[Row]:
    """Returns a row with an ``error`` for each partition or registry that could not be asked."""
    return [
        {"name": each.way.mirror, "destination": each.way.destination, "error": str(error)} for error in each.failures
    ]


def _id_state(place: IdPlace) -> str:
    if not place.is_known:
        return "unknown"
    if place.is_unnamed:
        return "guid"
    return "missing" if place.there is None else "known"


def _state(plan: SubjectPlan) -> str:
    if plan.refusal is not None:
        return "refused"
    if not plan.source.versions:
        return "absent"
    return "behind" if plan.actions else "equal"


def _of(each: WayPlan) -> Row:
    return {"name": each.way.mirror, "destination": each.way.destination, "registry": each.way.schemas.there.name}


def _digest(action: Action) -> str | None:
    return action.key[:DIGEST_LENGTH] or None
