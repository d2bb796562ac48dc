"""What records that no offset map names mean for the verdict on a mapped copy."""

from dataclasses import replace

from mirrorlake.errors import DestinationForeignError
from mirrorlake.kinds.copies import MappedSide
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.digest_tasks import copy_side
from mirrorlake.verify.unnamed import UnnamedTask
from mirrorlake.verify.verdict import Result, Verdict
from mirrorlake.verify.worker import DigestResult


def unnamed_task(row: StatusRow, *, largest_batch_bytes: int) -> UnnamedTask | None:
    """Returns what to ask about a row's destination partition; None where it has no offset map. Rows may share one."""
    if row.mapped is None or row.error is not None:
        return None
    side = copy_side(row)
    if not isinstance(side, MappedSide) or not row.target.progress_topic_id:
        return None
    return UnnamedTask(
        cluster=side.cluster,
        partition=side.partition,
        topics=side.topics,
        own_producer_ids=row.target.own_producer_ids,
        largest_batch_bytes=largest_batch_bytes,
    )


def with_unnamed(verdict: Verdict, found: DigestResult) -> Verdict:
    """Returns the verdict on a mapped copy beside which nothing of the mirror's own may stand that no map names."""
    verdict = replace(verdict, repeated=found.repeated if found.error is None else None)
    if verdict.error is not None or (found.error is None and not found.records):
        return verdict
    if found.error is not None:
        return replace(verdict, result=Result.FAILED, error=found.error)
    target = verdict.row.target
    return replace(
        verdict,
        result=Result.DIFFERS,
        difference=verdict.difference or "extra",
        error=DestinationForeignError(
            f"{found.records} records of mirror {target.mirror.name}'s own producers are at destination "
            f"{target.destination_topic} that its offset map does not name, the first at destination offset "
            f"{found.first_unnamed}: copied twice?",
            hint="its progress was lost once, or its position moved back by a version that did not map second copies; "
            "readers of the topic see these records beside those the map names",
            records=found.records,
            first_offset=found.first_unnamed,
        ),
    )
