"""What is done about the subjects of configured mirrors, and doing it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.errors import MirrorlakeError
from mirrorlake.schemas.applying import mirror_subjects
from mirrorlake.schemas.history import Damage
from mirrorlake.schemas.mirroring import MirrorPlan, SubjectMirroring, judged
from mirrorlake.schemas.plan import Action, Refusal, SubjectPlan
from mirrorlake.service.subjects.finding import RegistryClients, SubjectWay

_ONE_SUBJECT_HINT = "give all of them the same `compatibility` and `registry-mode`"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayPlan:
    """What is done about a mirror's subjects at one destination; ``plan`` is None where that could not be found out."""

    way: SubjectWay
    plan: MirrorPlan | None
    failures: tuple[MirrorlakeError, ...] = ()

    @property
    def actions(self) -> list[Action]:
        """What is done, in order; nothing of what is refused."""
        return [] if self.plan is None else self.plan.actions

    @property
    def is_open(self) -> bool:
        """True where something is refused or not known, of an archive that is damaged too."""
        is_damaged = any(each.is_open for each in self.damage)
        return bool(self.failures or self.plan is None or self.plan.refused or is_damaged)

    @property
    def damage(self) -> list[Damage]:
        """What was seen to be damaged in the archive that its subjects come from."""
        return [] if self.plan is None else self.plan.damage


async def plan_ways(ways: Sequence[SubjectWay], registries: RegistryClients) -> list[WayPlan]:
    """Returns what is done about each; changes nothing.

    Refused is what two mirrors want differently of one subject: each would undo what the other does.
    """
    return without_contradictions([await plan_way(way, registries) for way in ways])


async def apply_way(planned: WayPlan, registries: RegistryClients) -> WayPlan:
    """Does what is possible of a plan, and returns the one of the look after it, with what was refused.

    What went wrong is one more failure of it: some changes may have been made.
    """
    if planned.plan is None:
        return planned
    possible = planned.plan.possible
    try:
        done = await mirror_subjects(mirroring_of(planned.way, registries), sorted(possible.wanted), first=possible)
    except MirrorlakeError as error:
        return replace(planned, failures=(*planned.failures, error))
    plans = (*done.plan.plans, *planned.plan.refused)
    return replace(planned, plan=replace(planned.plan, plans=plans))


def mirroring_of(way: SubjectWay, registries: RegistryClients) -> SubjectMirroring:
    """Returns what mirrors a way's subjects; what they refer to keeps its name, unless it is one of them."""
    names: Mapping[str, str] = {each.source: each.destination for each in way.subjects}
    schemas = way.schemas
    source, destination = registries.reader(schemas.source), registries.client(schemas.there.settings)
    return SubjectMirroring(source, destination, schemas.rules, lambda name: names.get(name, name))


async def plan_way(way: SubjectWay, registries: RegistryClients) -> WayPlan:
    """Returns what is done about one, whatever others want of its subjects; changes nothing."""
    try:
        plan = await mirroring_of(way, registries).plan([each.source for each in way.subjects])
    except MirrorlakeError as error:
        return WayPlan(way=way, plan=None, failures=(*way.failures, error))
    return WayPlan(way=way, plan=plan, failures=way.failures)


def without_contradictions(plans: Sequence[WayPlan]) -> list[WayPlan]:
    """Returns the plans, where what several of them want differently of one subject is refused. Pure.

    Args:
        plans: of looks at different times, maybe, the latest first: its is the level of the source for all of them.
    """
    wanted: dict[tuple[object, str], set[str]] = {}
    levels: dict[tuple[str, str], str] = {}
    for each in plans:
        for plan in each.plan.plans if each.plan else ():
            if plan.source.versions:
                source = each.way.schemas.source.name, plan.source.subject
                level = plan.rules.level or levels.setdefault(source, plan.source.level)
                wanted.setdefault(_place(each, plan), set()).add(_in_the_end(plan, level))

    def compared(each: WayPlan, plan: SubjectPlan) -> SubjectPlan:
        values = wanted.get(_place(each, plan), set())
        if len(values) < 2 or plan.refusal is not None:
            return plan
        reason = f"several mirrors want {' and '.join(sorted(values))} of subject {plan.destination.subject}"
        return replace(plan, actions=(), refusal=Refusal(reason=reason, hint=_ONE_SUBJECT_HINT))

    return [
        each
        if each.plan is None
        else replace(each, plan=judged(replace(each.plan, plans=tuple(compared(each, p) for p in each.plan.plans))))
        for each in plans
    ]


def _place(each: WayPlan, plan: SubjectPlan) -> tuple[object, str]:
    settings = each.way.schemas.there.settings
    return (settings.urls, settings.context), plan.destination.subject


def _in_the_end(plan: SubjectPlan, level: str) -> str:
    mode = plan.rules.registry_mode
    return f"level {level}" + (f" in mode {mode}" if mode else "")
