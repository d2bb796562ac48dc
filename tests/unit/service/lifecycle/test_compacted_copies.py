"""Of a copy that is compacted while its source keeps all a service warns once, and again where it is so again."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.service.lifecycle.compacted_copies import CompactedCopies
from mirrorlake.topics.targets import Target
from support.compacted_targets import target_of


def copy_of(source: str, copy: str, *, mirror: str = "same") -> Target:
    target = target_of(mirror, cleanup_policy=source)
    return replace(target, destination_configs={"cleanup.policy": copy})


def meant(target: Target) -> Target:
    destination = target.destination
    assert isinstance(destination, KafkaDestination)
    sync = replace(destination.sync, override={"cleanup.policy": "compact,delete"})
    return replace(target, destination=replace(destination, sync=sync))


def told(*looks: Target) -> list[Any]:
    copies = CompactedCopies()
    with capture_logs() as lines:
        for target in looks:
            copies.saw([target, target])
    return [(line["log_level"], line["mirror"], line["destination_topic"]) for line in lines]


@pytest.mark.parametrize("mirror", ["same", "mapped", "restored"])
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_it_is_told_once_for_all_partitions_and_looks(mirror: str, policy: str) -> None:
    target = copy_of("delete", policy, mirror=mirror)
    assert told(target, target) == [("warning", mirror, "users")]


def test_it_is_told_again_where_it_was_not_so_meanwhile_and_not_where_nobody_could_be_asked_meanwhile() -> None:
    losing, whole = copy_of("delete", "compact"), copy_of("delete", "delete")
    assert len(told(losing, whole, losing)) == 2
    assert len(told(losing, replace(whole, destination_configs={}), losing)) == 1
    assert len(told(losing, replace(whole, source_configs={}), losing)) == 1


@pytest.mark.parametrize(
    "target",
    [
        copy_of("compact", "compact"),
        copy_of("compact,delete", "compact"),
        copy_of("compact", "delete"),
        meant(copy_of("delete", "compact")),
        copy_of("delete", "compact", mirror="archived"),
        replace(copy_of("delete", "compact"), source_configs={"retention.ms": "1"}),
    ],
    ids=["both", "both and retention", "the source alone", "meant so", "an archive", "a policy that is not known"],
)
def test_nothing_is_told_of_what_loses_nothing_is_meant_so_or_not_known(target: Target) -> None:
    assert told(target) == []
