"""Turns targets into the states a supervisor serves: what a lease needs to know, and what is known at the start."""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

import structlog

from mirrorlake.archive.chain import Segment
from mirrorlake.archive.envelope import SegmentFooter
from mirrorlake.archive.folder import PartitionFolder
from mirrorlake.archive.root_marker import read_root_marker
from mirrorlake.archive.sidecar import FORMATS_WITH_SIDECAR, sidecar_folder, sidecar_key
from mirrorlake.errors import MirrorlakeError, UnsupportedError
from mirrorlake.kinds.archive_ends import archived_partition, check_end
from mirrorlake.kinds.registry import kind_of
from mirrorlake.mirror.policy import Decision, between_leases
from mirrorlake.service.partition_state import PartitionState
from mirrorlake.sources.mark import SourceMark
from mirrorlake.stores.opening import open_store
from mirrorlake.stores.settings import FilesystemSettings, StoreSettings
from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")

LISTINGS_AT_ONCE = 8


def writer_name() -> str:
    """Returns what this process calls itself in claims and files: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def state_of(target: Target, *, writer: str) -> PartitionState:
    """Returns the state of a target as far as the configuration and the clusters' metadata say it."""
    kind = kind_of(target.destination)
    return PartitionState(
        mirror=target.mirror.name,
        source=target.source,
        shard=target.shard,
        work=kind.work(target, writer=writer),
        topic_id=target.topic_id,
        is_bounded=target.source_work.is_bounded,
        rule=kind.flush_rule(target),
        flush_clock=kind.flush_clock(target),
        error=target.error,
        was_refused=target.error is not None,
        is_parked=_parks(target.error),
    )


def with_archive_positions(
    states: Sequence[tuple[Target, PartitionState]],
    *,
    writes: bool,
    gone: Mapping[StoreSettings, MirrorlakeError] = MappingProxyType({}),
) -> list[PartitionState]:
    """Returns states with where their chains end, after checking those; errors become the state's.

    Args:
        states: archive targets with their states.
        writes: whether stores are probed and leftovers swept; False touches nothing.
        gone: stores that must not be written to, each with the reason.
    """
    stores = {target.archive.store.settings for target, _ in states}
    refused = {**gone, **{store: error for store in stores if (error := _of_later_version(store)) is not None}}
    probed = {store: _probe(store) for store in stores if writes and store not in refused}
    refused |= {store: error for store, error in probed.items() if error is not None}
    with ThreadPoolExecutor(LISTINGS_AT_ONCE, thread_name_prefix="chain-check") as pool:
        return list(pool.map(lambda pair: _with_position(*pair, refused=refused, writes=writes), states))


def make_roots(targets: Sequence[Target]) -> None:
    """Makes the root folders of archives that are missing, as mirror-v3 does for its users.

    In the native form a missing root is refused: it is more often a disk that is not mounted than a wish. A root that
    cannot be made is left to the probe, which says why.
    """
    for target in targets:
        store = target.archive.store.settings
        if isinstance(store, FilesystemSettings):
            with contextlib.suppress(OSError):
                store.root.mkdir(parents=True, exist_ok=True)


def _of_later_version(store: StoreSettings) -> MirrorlakeError | None:
    """Returns why an archive is not ours to go on with; a damaged marker is no reason, and said when it is due."""
    try:
        read_root_marker(open_store(store))
    except UnsupportedError as error:
        return error
    except MirrorlakeError:
        return None
    return None


def _probe(store: StoreSettings) -> MirrorlakeError | None:
    try:
        open_store(store).probe()
    except MirrorlakeError as error:
        return error
    return None


def _with_position(
    target: Target, state: PartitionState, *, refused: dict[StoreSettings, MirrorlakeError], writes: bool
) -> PartitionState:
    if state.error is not None:
        return state
    try:
        if error := refused.get(target.archive.store.settings):
            raise error
        archived = archived_partition(target)
        chain = archived.find_end()
        footer = check_end(target, archived, chain)
        if writes:
            archived.sweep(chain)
            if footer is None and chain.tail is not None:
                _warn_of_lost_description(archived, chain.tail)
    except MirrorlakeError as error:
        return replace(state, error=error, is_parked=_parks(error))
    found = replace(state, position=chain.position, first_position=chain.position, archived=archived, tail=chain.tail)
    if footer is not None:
        return _with_newest(found, footer, chain.position)
    if chain.tail is not None and (work := state.archive_work) is not None:
        return replace(found, work=replace(work, settings=replace(work.settings, mirror_v3_end=chain.position)))
    return replace(found, view_records=0) if state.work.has_view else found


def _with_newest(state: PartitionState, footer: SegmentFooter, position: int) -> PartitionState:
    """Returns the state with what the newest file says."""
    if footer.leader_epoch is not None:
        state = replace(state, source_mark=SourceMark(epoch=footer.leader_epoch, offset=position))
    return state if footer.snapshot is None else replace(state, view_records=footer.records)


def _parks(error: MirrorlakeError | None) -> bool:
    return error is not None and between_leases(error) is Decision.PARK


def _warn_of_lost_description(archived: PartitionFolder, tail: Segment) -> None:
    """Says so where a newest segment looks like mirror-v3's, and others of its folder are described."""
    if archived.extension not in FORMATS_WITH_SIDECAR:
        return
    if next(iter(archived.store.list(sidecar_folder(archived.prefix))), None) is not None:
        key = f"{archived.prefix}/{tail.name}"
        _log.warning(
            "the newest file has no description, and is taken for one of mirror-v3",
            path=key,
            hint=f"if mirrorlake wrote it, stop, and put {sidecar_key(key)} back from a copy",
        )
