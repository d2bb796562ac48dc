"""The order of changes over several subjects: what is referred to comes first, and goes last. Pure."""

from collections.abc import Mapping, Sequence

from mirrorlake.schemas.plan import Action, ActionKind, SubjectPlan


def ordered_actions(plans: Sequence[SubjectPlan]) -> list[Action]:
    """Returns the actions of all plans, each plan's in its own order.

    A version is registered when all it refers to is; deleted before it. Levels and modes are set when all versions are
    there: until then each subject takes what it took at the source, in whatever order.
    """
    merging = _Merging(plans)
    for plan in plans:
        merging.emit_all(plan.source.subject)
    deletions = [
        action
        for subject in reversed(merging.subjects)
        for action in reversed(merging.tails[subject])
        if action.kind is ActionKind.DELETE
    ]
    settings = [
        action
        for subject in merging.subjects
        for action in merging.tails[subject]
        if action.kind is not ActionKind.DELETE
    ]
    return [*merging.emitted, *deletions, *settings]


class _Merging:
    def __init__(self, plans: Sequence[SubjectPlan]) -> None:
        self._heads = {plan.source.subject: _head(plan.actions) for plan in plans}
        self.tails: Mapping[str, Sequence[Action]] = {
            plan.source.subject: plan.actions[len(_head(plan.actions)) :] for plan in plans
        }
        self._next = dict.fromkeys(self._heads, 0)
        self._waiting: set[str] = set()
        self.emitted: list[Action] = []
        self.subjects: list[str] = []

    def emit_all(self, subject: str) -> None:
        self._emit(subject, len(self._heads[subject]))
        if subject not in self.subjects:
            self.subjects.append(subject)

    def _emit(self, subject: str, end: int) -> None:
        """Emits a subject's actions up to one (exclusive), with all that they need before them."""
        if subject in self._waiting:
            return  # it is being emitted, up to a version that refers to what asks for it
        self._waiting.add(subject)
        while self._next[subject] < end:
            action = self._heads[subject][self._next[subject]]
            self._emit_references(action)
            self.emitted.append(action)
            self._next[subject] += 1
        self._waiting.discard(subject)

    def _emit_references(self, action: Action) -> None:
        references = () if action.version is None else action.version.schema.references
        for reference in references:
            for place, other in enumerate(self._heads.get(reference.subject, ())):
                if other.kind is ActionKind.REGISTER and other.version and other.version.key == reference.key:
                    self._emit(reference.subject, place + 1)
            if reference.subject in self._heads and reference.subject not in self.subjects:
                self.subjects.append(reference.subject)


def _head(actions: Sequence[Action]) -> Sequence[Action]:
    """Returns the actions up to the last registration."""
    last = max((i for i, action in enumerate(actions) if action.kind is ActionKind.REGISTER), default=-1)
    return actions[: last + 1]
