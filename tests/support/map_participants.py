"""A source partition's part in the transactions of a mirror with mapped offsets, of which nothing is copied yet."""

from mirrorlake.destinations.map.offset_map import OpenPage
from mirrorlake.destinations.map.progress import ProgressKey
from mirrorlake.destinations.map.transaction_participants import Member, Participant
from mirrorlake.offsets import TopicPartition


def new_participant(member: Member) -> Participant:
    return Participant(
        key=ProgressKey(destination_topic="copy", source=TopicPartition("orders", 0)),
        member=member,
        source_cluster_id="",
        source_topic_id="",
        destination_topic_id="",
        destination=TopicPartition("copy", 0),
        progress=None,
        page=OpenPage.at(0),
        taken_end=0,
        committed_end=0,
        empty_from=0,
    )
