"""What is known of where one partition of a copy stood, and from where it goes on."""

from dataclasses import dataclass

from mirrorlake.config.imports.draft import Former
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.record_clock import LOG_APPEND_TIME, TIMESTAMP_TYPE
from mirrorlake.destinations.source_log import SourceLog
from mirrorlake.kafka.control.cluster import EARLIEST, ClusterClient
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.taking_over.comparing import compare, decided_end
from mirrorlake.service.taking_over.connect_offsets import Stored
from mirrorlake.service.taking_over.copied import Copied
from mirrorlake.topics.targets import UNKNOWN_PARTITION, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """From where one partition goes on: ``offset`` None where nothing is said of it, and it begins as if it was new.

    ``remarks`` are to be read; a ``problem`` must be mended before the configuration is used. ``copy_end`` is where the
    copy ended when it was looked at, None where there was none.
    """

    source: TopicPartition
    offset: int | None = None
    remarks: tuple[str, ...] = ()
    problem: str = ""
    copy_end: int | None = None


async def judge(target: Target, stored: Stored | None, former: Former, clients: WorkerCache) -> Verdict:
    """Returns where the copy of one partition goes on. Reads only.

    Args:
        target: of the configuration that was made of the program's.
        stored: what the program has stored of it, None where nothing.
        former: the program.
        clients: of both clusters.

    Raises:
        MirrorlakeError: a side could not be read.
    """
    source = target.source
    if target.error is not None or source.partition == UNKNOWN_PARTITION:
        return Verdict(source=source, problem=f"was not looked at: {target.error}")
    if stored is not None and stored.only is None:
        named = ", ".join(f"{name} {offset}" for name, offset in sorted(stored.next_offsets.items()))
        return Verdict(source=source, problem=f"several connectors have stored where they stood ({named}): write one")
    next_offset = None if stored is None else stored.only
    if target.is_to_be_made:
        if next_offset is None:
            return _new(source, former, copy_end=None)
        lost = f"{former.program} had copied it up to offset {next_offset}, and {target.destination_partition} is not"
        return Verdict(source=source, problem=f"{lost} there: write the offset to copy from")
    client = clients.client(target.destination_cluster)
    judged = _Partition(target, former, target.source_work.log(source, clients), client)
    return await (judged.without() if next_offset is None else judged.behind(next_offset))


def _new(source: TopicPartition, former: Former, *, copy_end: int | None) -> Verdict:
    if former.begins_latest:
        problem = f"nothing is stored of it, and {former.program} would begin at its end: write an offset for it"
        return Verdict(source=source, problem=problem, copy_end=copy_end)
    remark = "nothing is stored of it and nothing was copied: it begins at the start of its log"
    return Verdict(source=source, remarks=(remark,), copy_end=copy_end)


class _Partition:
    """One partition that has a copy."""

    def __init__(self, target: Target, former: Former, log: SourceLog, client: ClusterClient) -> None:
        self._target = target
        self._former = former
        self._log = log
        self._client = client
        self._copy = target.destination_partition

    async def without(self) -> Verdict:
        """Judges a partition of which nothing is stored: the copy alone says how far it goes."""
        source, copy_end = self._target.source, await decided_end(self._client, self._copy)
        if copy_end == 0:
            return _new(source, self._former, copy_end=copy_end)
        unknown = Verdict(
            source=source,
            problem=f"nothing is stored of it, and {self._copy} holds records: write the offset to copy from",
            copy_end=copy_end,
        )
        if self._former.begins_latest or self._why_not_compared:
            return unknown
        start = await self._log.start()
        found = await self._compare(start)
        if found.position == start or found.hole is not None:
            return unknown
        said = f"nothing is stored of it; its copy shows that all below offset {found.position} is there"
        return Verdict(source=source, offset=found.position, remarks=(said, *_doubts(found)), copy_end=copy_end)

    async def behind(self, next_offset: int) -> Verdict:
        """Judges a partition of which the program would read ``next_offset`` next."""
        source, copy_end = self._target.source, await decided_end(self._client, self._copy)
        start, end, written = await self._log.start(), await self._log.end(), await self._log.written_end()
        if written is None or next_offset > written:
            ends = "could not be asked" if written is None else f"ends at {written}"
            problem = f"offset {next_offset} is stored and the source {ends}: is it the same topic? Write an offset"
            return Verdict(source=source, problem=problem, copy_end=copy_end)
        remarks = []
        if next_offset < start:
            lost = f"the source has deleted [{next_offset}, {start}) meanwhile: `on-truncation` tells what happens then"
            remarks.append(lost)
        if next_offset >= end:
            return Verdict(source=source, offset=next_offset, copy_end=copy_end)
        if why := self._why_not_compared:
            remarks.append(f"{why}: records from offset {next_offset} on that were copied already are copied once more")
            return Verdict(source=source, offset=next_offset, remarks=tuple(remarks), copy_end=copy_end)
        found = await self._compare(max(start, next_offset))
        position = found.position if found.position > start else next_offset
        if position > next_offset:
            remarks.append(f"offset {next_offset} is stored, and the copy reaches {position}, which is taken")
        elif found.compared and not found.found and copy_end:
            none = f"none of the {found.compared} records before offset {next_offset} is in {self._copy} as it was"
            remarks.append(f"{none}: later ones that were copied already could not be told, and are copied once more")
        return Verdict(source=source, offset=position, remarks=(*remarks, *_doubts(found)), copy_end=copy_end)

    @property
    def _why_not_compared(self) -> str:
        """Returns why the copy is not looked into; empty where it is."""
        if not self._former.keeps_partitions:
            return "its records went to any partition"
        if self._target.destination_configs.get(TIMESTAMP_TYPE) == LOG_APPEND_TIME:
            return f"{self._copy.topic} has {TIMESTAMP_TYPE}={LOG_APPEND_TIME}, so records are not what they were"
        return ""

    async def _compare(self, next_offset: int) -> Copied:
        begins = await self._client.offset_at(self._copy, EARLIEST)
        return await compare(
            self._log,
            self._client,
            self._copy,
            next_offset=next_offset,
            may_have_lost=begins > 0 or self._target.destination_is_compacted,
        )


def _doubts(found: Copied) -> tuple[str, ...]:
    if found.end <= found.position:
        return ()
    part = f"records of [{found.position}, {found.end})"
    if found.hole == found.position:
        return (f"{part} are there without offset {found.hole} before them: they are copied once more, behind it",)
    return (f"{part} may be there already and be copied once more: equal records cannot be told apart",)
