"""The keeper of archives' schedules, made of the parts of one run."""

from collections.abc import Callable

from mirrorlake.pipeline.batch_jobs import BatchJobs, slots_beside
from mirrorlake.pipeline.engine import Engine
from mirrorlake.service.archive_keeper import ArchiveKeeper
from mirrorlake.service.archives.scheduled import Folder, KeepingJob, KeepingOutcome, ScheduledKeeping, jobs_of
from mirrorlake.service.lifecycle.parts import Parts
from mirrorlake.service.state_table import StateTable


def keeper_of(parts: Parts, session: Engine, *, on_engine_dead: Callable[[], None]) -> ArchiveKeeper:
    """Returns what keeps the schedules; a bounded run keeps none.

    Args:
        parts: of the run.
        session: whose batch slots merge.
        on_engine_dead: called where the engine turns out to be gone.
    """

    def is_stopping() -> bool:
        return keeper.is_stopping

    keeping = ScheduledKeeping(
        config=parts.config,
        clock=parts.clock,
        jobs=BatchJobs(session, slots=slots_beside(session, parts.config.engine.lanes), is_stopping=is_stopping),
        gone_roots=parts.markers.gone_roots,
        left_alone=lambda: _left_alone(parts.table),
        is_stopping=is_stopping,
    )

    def do(job: KeepingJob) -> KeepingOutcome:
        return keeping.do(job)

    clusters = {
        mirror.name: [each.cluster.name for each in mirror.kafka_destinations]
        for mirror in parts.config.enabled_mirrors
    }
    keeper = ArchiveKeeper(
        [] if parts.options.once else jobs_of(parts.config),
        do=do,
        is_ours=lambda mirror: parts.owners.owns(mirror, clusters[mirror]),
        board=parts.keeping,
        clock=parts.clock,
        on_engine_dead=on_engine_dead,
    )
    return keeper


def _left_alone(table: StateTable) -> frozenset[Folder]:
    """Returns the folders of partitions that are parked or paused: somebody may be at work on them."""
    return frozenset(
        (work.store, state.archived.prefix)
        for state in table.states
        if (state.is_parked or state.is_paused)
        and state.archived is not None
        and (work := state.archive_work) is not None
    )
