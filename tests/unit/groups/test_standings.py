"""How groups stand at a destination: nothing is concluded from what this user may not see."""

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import pytest

from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.groups.placing import Standing
from mirrorlake.groups.restoring import _standings
from mirrorlake.kafka.control.descriptions import (
    ClusterMetadata,
    CommittedOffset,
    GroupListing,
    ListedGroup,
    TopicMetadata,
)
from mirrorlake.offsets import TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"
PLACE = TopicPartition("t", 0)
TOPIC = TopicMetadata(name=OFFSETS_TOPIC, topic_id="1", is_internal=True, partitions={})


class Site:
    """A cluster with a group that stands at 7; says of the topic of offsets what it is told to."""

    def __init__(self, topics: Mapping[str, TopicMetadata], errors: Mapping[str, MirrorlakeError]) -> None:
        self._told = ClusterMetadata(
            cluster_id="c", controller_id=1, brokers={1: ("h", 1)}, topics=topics, errors=errors
        )
        self.is_asked = False
        self.groups = SimpleNamespace(list=self._list, states=self._states, offsets=self._offsets)

    async def metadata(self, topics: Sequence[str], *, refresh: bool) -> ClusterMetadata:
        assert (topics, refresh) == ([OFFSETS_TOPIC], True)
        return self._told

    async def _list(self, broker_ids: Mapping[int, tuple[str, int]]) -> GroupListing:
        assert [*broker_ids] == [1]
        return GroupListing(groups={"app": ListedGroup(group="app", protocol_type="", state="Empty")})

    async def _states(self, groups: Sequence[str]) -> dict[str, str]:
        assert groups == []
        return {}

    async def _offsets(
        self, groups: Mapping[str, Sequence[TopicPartition]], *, is_stable: bool
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        assert is_stable
        self.is_asked = True
        return {group: dict.fromkeys(places, CommittedOffset(7)) for group, places in groups.items()}


def standing(site: Site) -> Standing:
    return asyncio.run(_standings(site, {"app": [PLACE]}))["app"][PLACE]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("topics", "errors"),
    [({OFFSETS_TOPIC: TOPIC}, {}), ({}, {OFFSETS_TOPIC: PermissionDeniedError("no right")})],
    ids=["its topic is there", "its topic may not be described"],
)
def test_groups_are_asked_about(topics: dict[str, TopicMetadata], errors: dict[str, MirrorlakeError]) -> None:
    assert standing(Site(topics, errors)) == Standing(state="Empty", committed=CommittedOffset(7))


def test_where_no_group_ever_was_none_is_asked_about() -> None:
    site = Site({}, {})
    assert standing(site) == Standing()
    assert not site.is_asked
