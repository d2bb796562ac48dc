"""Does what a plan says, and reads it back.

Nothing is kept between two changes: after an answer that was lost, or a refusal that another mirror's change may
explain, both registries are read again and a new plan is made of what is there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirrorlake.errors import (
    RegistryRefusedError,
    RegistryUnavailableError,
    SchemaAlteredError,
    SubjectMovedError,
    TransientError,
)
from mirrorlake.schemas.history import SchemaVersion, SubjectHistory
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring
from mirrorlake.schemas.plan import Action, ActionKind
from mirrorlake.schemas.rules import SubjectMode

_ROUNDS_MAX: Final = 8
_WAIT_SECONDS: Final = 0.5
_MAY_PASS: Final = frozenset({409, 40901, 42205, 42206})
"""Refusals that another mirror's change of level, mode or reference explains, and looking again resolves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan:
    """What was done, and what is there now: the plan of the last look, in which nothing is left to do."""

    done: tuple[Action, ...]
    plan: MirrorPlan


class _Step:
    """Does the actions of one plan, keeping in mind what the destination holds meanwhile."""

    def __init__(self, mirroring: SubjectMirroring, plan: MirrorPlan) -> None:
        self._mirroring = mirroring
        self._client = mirroring.destination
        plans = [each for each in plan.plans if each.refusal is None]
        self._there: dict[str, SubjectHistory] = {each.source.subject: each.destination for each in plans}
        self._names = {each.destination.subject: each.source.subject for each in plans}
        self._same = {key: value for each in plans for key, value in each.same.items()}

    async def do(self, action: Action) -> None:
        match action.kind:
            case ActionKind.SET_LEVEL:
                await self._client.set_level(action.subject, action.value)
            case ActionKind.SET_MODE:
                await self._client.set_mode(action.subject, action.value)
            case ActionKind.REGISTER:
                await self._register(action)
            case ActionKind.DELETE:
                await self._delete(action)

    async def _register(self, action: Action) -> None:
        assert action.version is not None
        schema, name = action.version.schema, self._names[action.subject]
        references = self._mirroring.references_there(schema, self._same, self._there)
        if references is None:
            raise _moved(action, "a reference of a schema is not there")
        await self._client.register(action.subject, schema, references, id_=action.id)
        place = await self._client.look_up(action.subject, schema, references)
        if place is None:
            raise _moved(action, "a version that was registered is not there")
        there = self._there[name]
        before = next((each for each in there.live if each.version == place.version), None)
        if before is not None:
            self._check_merged(action, place.version)
            self._same[action.version.key] = before.key
            return
        if action.id not in (None, place.id):
            raise SchemaAlteredError(
                f"registry {self._client.settings.name} gave version {place.version} of {action.subject} the id "
                f"{place.id}, and was told {action.id}",
                hint="it does not take ids: use `ids: remap`",
                subject=action.subject,
            )
        found = await self._client.version(action.subject, place.version)
        if found is None:
            raise _moved(action, "a version that was registered is not there")
        self._there[name] = replace(there, versions=(*there.versions, found))
        if found.key != action.version.key:
            self._same[action.version.key] = found.key

    def _check_merged(self, action: Action, version: int) -> None:
        assert action.version is not None
        if self._mirroring.rules.mode is SubjectMode.STRICT:
            raise SchemaAlteredError(
                f"registry {self._client.settings.name} takes version {action.version.version} of the source as the "
                f"version {version} it has of {action.subject} already, and they differ",
                hint="use `mode: lenient`, which does not ask for equal lists",
                subject=action.subject,
            )

    async def _delete(self, action: Action) -> None:
        now = await self._client.history(action.subject)
        for version in _live_with(now, self._same.get(action.key, action.key)):
            await self._client.delete_version(action.subject, version.version)
        self._there[self._names[action.subject]] = await self._client.history(action.subject)


async def mirror_subjects(
    mirroring: SubjectMirroring,
    subjects: Sequence[str],
    *,
    first: MirrorPlan | None = None,
    told: Callable[[Action], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AppliedPlan:
    """Makes the destination's subjects what the rules promise, and returns when they were seen to be so. Idempotent.

    Nothing is changed where any of them cannot be mirrored.

    Args:
        mirroring: between which registries, and how.
        subjects: the source's names.
        first: a plan of just now to begin with; None makes one.
        told: hears of each change when it is done.
        sleep: waits before looking again.

    Raises:
        SubjectRefusedError: a subject cannot be mirrored, with both histories.
        SubjectMovedError: others change it each time.
        MirrorlakeError: a registry does not answer, or refuses; what was done until then stays, and is gone on from.
    """
    done: list[Action] = []
    failure: TransientError | RegistryRefusedError | None = None
    for round_ in range(_ROUNDS_MAX):
        if round_:
            await sleep(_WAIT_SECONDS * min(round_, 4))
        plan = first if first is not None and not round_ else await mirroring.plan(subjects)
        plan.raise_if_refused()
        actions = plan.actions
        if not actions:
            return AppliedPlan(done=tuple(done), plan=plan)
        step = _Step(mirroring, plan)
        try:
            for action in actions:
                await step.do(action)
                done.append(action)
                if told is not None:
                    told(action)
        except (RegistryUnavailableError, SubjectMovedError) as error:
            failure = error
        except RegistryRefusedError as error:
            if error.facts.get("error_code") not in _MAY_PASS:
                raise
            failure = error
        else:
            failure = None
            seen = await mirroring.plan(subjects)
            if not seen.actions and not seen.refused:
                return AppliedPlan(done=tuple(done), plan=seen)
    raise failure or SubjectMovedError(
        f"subject(s) {', '.join(subjects)} changed each time they had been mirrored",
        hint="does another mirror want other versions, or another level, of them?",
    )


def _live_with(history: SubjectHistory, key: str) -> list[SchemaVersion]:
    return [each for each in history.live if each.key == key]


def _moved(action: Action, what: str) -> SubjectMovedError:
    return SubjectMovedError(f"subject {action.subject}: {what}", hint="it is looked at again", subject=action.subject)
