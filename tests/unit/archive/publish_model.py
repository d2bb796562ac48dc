"""A search through every interleaving of writers and crashes, driving real code over a store in memory.

A writer's code between two effects on the store depends only on what the store answered since it began. So a
writer is the list of those answers, and the world is what the store holds. The real code is run over the
recorded answers to learn which effect it asks for next; the effect is done by the real `MemoryStore`; a crash
forgets the answers. Worlds, writers and states are numbered, so that each is computed once.
"""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from mirrorlake.errors import MirrorlakeError
from mirrorlake.stores.memory import MemoryStore
from mirrorlake.stores.object_store import ObjectInfo

World = frozenset[tuple[str, bytes]]
Answer = object

IDLE = -1


@dataclass(frozen=True)
class Effect:
    """One call of the store: a method's name and its arguments."""

    method: str
    arguments: tuple[str | bytes, ...]

    def perform(self, store: MemoryStore) -> Answer:
        if self.method == "publish":
            key, data = self.arguments
            assert isinstance(key, str)
            assert isinstance(data, bytes)
            staged = store.stage(key.rpartition("/")[0], "model")
            staged.file.write(data)
            staged.publish(key)
            return None
        if self.method == "list":
            prefix, start_after = self.arguments
            assert isinstance(prefix, str)
            assert isinstance(start_after, str)
            return tuple(store.list(prefix, start_after=start_after))
        if self.method == "folders":
            (prefix,) = self.arguments
            assert isinstance(prefix, str)
            return tuple(store.folders(prefix))
        return getattr(store, self.method)(*self.arguments)


@dataclass(frozen=True)
class Failed:
    """An answer that is an error."""

    kind: type[MirrorlakeError]
    message: str


class EffectAskedError(BaseException):
    """Ends a run at the first effect without a recorded answer; no code under test may catch it."""

    def __init__(self, effect: Effect) -> None:
        super().__init__(effect)
        self.effect = effect


class ReplayStore:
    """Answers from a record, and stops its writer where the record ends."""

    def __init__(self, answers: list[Answer]) -> None:
        self._answers = iter(answers)

    def ask(self, method: str, *arguments: str | bytes) -> Answer:
        try:
            answer = next(self._answers)
        except StopIteration:
            raise EffectAskedError(Effect(method, arguments)) from None
        if isinstance(answer, Failed):
            raise answer.kind(answer.message)
        return answer

    @property
    def listing_page_objects(self) -> None:
        return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        listing = self.ask("list", prefix, start_after)
        assert isinstance(listing, tuple)
        return iter(listing)

    def read(self, key: str) -> bytes:
        data = self.ask("read", key)
        assert isinstance(data, bytes)
        return data

    def create(self, key: str, data: bytes) -> None:
        self.ask("create", key, data)

    def delete(self, key: str) -> None:
        self.ask("delete", key)

    def stage(self, prefix: str, name: str) -> "ReplayStaged":
        return ReplayStaged(self)

    def sweep_staged(self, prefix: str) -> int:
        return 0

    def folders(self, prefix: str) -> Iterator[str]:
        names = self.ask("folders", prefix)
        assert isinstance(names, tuple)
        return iter(names)

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.read(key))

    def probe(self) -> None:
        raise AssertionError("not used by a writer")


class ReplayStaged:
    def __init__(self, store: ReplayStore) -> None:
        self._store = store
        self._staged = MemoryStore().stage("", "model")

    @property
    def file(self) -> BinaryIO:
        return self._staged.file

    def reread(self) -> BinaryIO:
        return self._staged.reread()

    def publish(self, key: str) -> None:
        self._staged.file.seek(0)
        self._store.ask("publish", key, self._staged.file.read())

    def discard(self) -> None:
        self._staged.discard()


class Search:
    """Visits every state reachable from a world in which all writers are idle.

    Args:
        programs: for each writer, what it may do when idle: functions that drive real code over a store.
        start: what the store holds at first.
    """

    def __init__(self, programs: tuple[tuple[Callable[[ReplayStore], None], ...], ...], start: World) -> None:
        self.worlds: list[World] = []
        self.states: set[tuple[int, ...]] = set()
        self._start = start
        self._programs = programs
        self._world_ids: dict[World, int] = {}
        # A writer's record, by number: its program, the record it grew out of, and the newest answer.
        self._records: list[tuple[Callable[[ReplayStore], None], int, Answer]] = []
        self._record_ids: dict[tuple[int, Answer], int] = {}
        self._asked: dict[int, Effect | None] = {}
        self._performed: dict[tuple[int, Effect], tuple[int, Answer]] = {}
        # What a writer makes of a world is the same wherever the others are: most states are made of known steps.
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}

    def run(self) -> None:
        beginnings = tuple(
            tuple(self._new_record(program, IDLE, None) for program in programs) for programs in self._programs
        )
        first = (self._world_id(self._start), *(IDLE for _ in self._programs))
        self.states = {first}
        waiting = [first]
        while waiting:
            for state in self._next_states(waiting.pop(), beginnings):
                if state not in self.states:
                    self.states.add(state)
                    waiting.append(state)

    def _next_states(
        self, state: tuple[int, ...], beginnings: tuple[tuple[int, ...], ...]
    ) -> Iterator[tuple[int, ...]]:
        world, *writers = state
        for index, record in enumerate(writers):
            before, after = writers[:index], writers[index + 1 :]
            for begun in beginnings[index] if record == IDLE else (record,):
                if (step := self._steps.get((world, begun))) is None:
                    step = self._steps[world, begun] = self._step(world, begun)
                then, writer = step
                yield (then, *before, writer, *after)
            yield (world, *before, IDLE, *after)  # a crash, which an idle writer does not notice

    def _step(self, world: int, record: int) -> tuple[int, int]:
        effect = self._effect_asked_after(record)
        if effect is None:
            return world, IDLE
        if (world, effect) not in self._performed:
            self._performed[world, effect] = self._perform(world, effect)
        then, answer = self._performed[world, effect]
        if (record, answer) not in self._record_ids:
            self._record_ids[record, answer] = self._new_record(self._records[record][0], record, answer)
        return then, self._record_ids[record, answer]

    def _effect_asked_after(self, record: int) -> Effect | None:
        if record not in self._asked:
            try:
                self._records[record][0](ReplayStore(self._answers(record)))
            except EffectAskedError as asked:
                self._asked[record] = asked.effect
            else:
                self._asked[record] = None
        return self._asked[record]

    def _answers(self, record: int) -> list[Answer]:
        answers: list[Answer] = []
        while (parent := self._records[record][1]) != IDLE:
            answers.append(self._records[record][2])
            record = parent
        return answers[::-1]

    def _perform(self, world: int, effect: Effect) -> tuple[int, Answer]:
        store = MemoryStore(dict(self.worlds[world]))
        try:
            answer = effect.perform(store)
        except MirrorlakeError as error:
            answer = Failed(type(error), error.message)
        return self._world_id(frozenset(store.objects.items())), answer

    def _new_record(self, program: Callable[[ReplayStore], None], parent: int, answer: Answer) -> int:
        self._records.append((program, parent, answer))
        return len(self._records) - 1

    def _world_id(self, world: World) -> int:
        if world not in self._world_ids:
            self._world_ids[world] = len(self.worlds)
            self.worlds.append(world)
        return self._world_ids[world]
