"""Whether what a destination topic holds is the copy of its source: what was decided about each target, or why not."""

from collections.abc import Sequence
from dataclasses import replace

from mirrorlake.errors import MirrorlakeError, TopicRecreatedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import LogEnd
from mirrorlake.topics.handover import States, copied_by_others, others_holding
from mirrorlake.topics.mapped_sources import OtherProgress
from mirrorlake.topics.others_records import written_by_others
from mirrorlake.topics.provenance import refusal, shared_and_recreated
from mirrorlake.topics.targets import Target


async def judged(targets: list[Target], states: States, client: ClusterClient) -> list[Target]:
    """Returns the targets of one topic: refused where the destination holds what is not theirs, as they are else.

    What a destination topic that was to be replaced holds is not deleted where nothing says that it has to be, nor
    where another mirror fills a part of it, or another producer has written to it.
    """
    sound = [target for target in targets if target.error is None]
    if not sound:
        return targets
    refused = [(target, error) for target in sound if (error := refusal(target, states)) is not None]
    if refused and await _holds_nothing(client, sound):
        refused = []
    progress = OtherProgress(client)
    errors = {target.source: await refusal_now(target, error, states, progress) for target, error in refused}
    others = others_holding(sound[0].destination_topic, sound[0].mirror.name, states)
    found = [t if t.error else _with_verdict(t, errors.get(t.source), others) for t in targets]
    replaced = [target for target in found if target.replaces and target.error is None]
    error = await written_by_others(replaced[0], states, client) if replaced else None
    return found if error is None else [_kept(target, error) for target in found]


def _kept(target: Target, error: MirrorlakeError) -> Target:
    """Returns a target whose topic is not deleted, and why, where it was to be."""
    return replace(_not_replaced(target), error=error) if target.replaces and target.error is None else target


async def refusal_now(
    target: Target, error: MirrorlakeError, states: States, progress: OtherProgress
) -> MirrorlakeError | None:
    """Returns why a target is refused; other mirrors' mapped copies count where the topic is the one they went to.

    Args:
        target: which is refused where all of them count.
        error: what ``refusal`` says then.
        states: of the destination cluster.
        progress: of other mirrors there.
    """
    if not target.is_mapped:
        return error
    others = [state.mirror for state in copied_by_others(target, states)]
    gone = [mirror for mirror in others if await progress.is_gone(mirror, target)]
    return refusal(target, {name: state for name, state in states.items() if name not in gone}) if gone else error


def _with_verdict(target: Target, error: MirrorlakeError | None, others: Sequence[str]) -> Target:
    if error is None:
        return _not_replaced(target)
    if target.replaces and isinstance(error, TopicRecreatedError):
        if not others:
            return target
        error = shared_and_recreated(target, others)
    return replace(_not_replaced(target), error=error)


def _not_replaced(target: Target) -> Target:
    if not target.replaces:
        return target
    if not target.destination_topic_id:
        return replace(target, replaces="")
    return replace(target, replaces="", creation=None)


async def _holds_nothing(client: ClusterClient, targets: Sequence[Target]) -> bool:
    """Tells whether nothing was copied to the destination partitions yet, or they were made anew."""
    there = [t.destination_partition for t in targets if t.destination_topic_id]
    ends = (await client.log_ends(there)).values() if there else ()
    return all(isinstance(end, LogEnd) and end.end_offset == 0 for end in ends)
