"""Does plans to a registry in memory, without HTTP, and shows what it holds as histories."""

import json
from collections.abc import Sequence

from mirrorlake.schemas.history import Schema, SchemaVersion, SubjectHistory
from mirrorlake.schemas.plan import Action, SubjectPlan, plan_subject
from mirrorlake.schemas.rules import SubjectRules
from support.registry_model import RegistryModel


def history_of(model: RegistryModel, subject: str) -> SubjectHistory:
    return SubjectHistory(
        subject=subject,
        versions=tuple(
            SchemaVersion(
                version=each.version, id=each.id, schema=Schema(text=each.body["schema"]), is_deleted=each.is_deleted
            )
            for each in model.subjects.get(subject, [])
        ),
        level=model.level_of(subject),
        mode=model.mode_of(subject) if model.has_modes else None,
    )


def planned(source: RegistryModel, destination: RegistryModel, rules: SubjectRules) -> SubjectPlan:
    ids = {
        each.id: Schema(text=each.body["schema"]).key
        for versions in destination.subjects.values()
        for each in versions
        if rules.keeps_ids
    }
    there = history_of(destination, "s")
    known = {each.id for each in there.versions}
    others = {id_: key for id_, key in ids.items() if id_ not in known}
    return plan_subject(history_of(source, "s"), there, rules, ids_there=others)


def perform(model: RegistryModel, actions: Sequence[Action]) -> None:
    for action in actions:
        match action.kind:
            case "set-level":
                model.set_level(action.subject, action.value)
            case "set-mode":
                model.set_mode(action.subject, action.value, force=True)
            case "register":
                assert action.version is not None
                model.register(action.subject, {"schema": action.version.schema.text}, action.id)
            case "delete":
                assert action.version is not None
                text = action.version.schema.text
                for each in model.live(action.subject):
                    if each.body["schema"] == text:
                        model.delete(action.subject, each.version)


def state(model: RegistryModel) -> str:
    """Everything a registry holds, to be compared."""
    held = {s: [(v.version, v.id, v.body, v.is_deleted) for v in versions] for s, versions in model.subjects.items()}
    return json.dumps([held, model.levels, model.modes], sort_keys=True)
