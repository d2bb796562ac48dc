"""Tells of copies whose topics are compacted while their sources keep all: the brokers take records out of them."""

from collections.abc import Iterable

import structlog

from mirrorlake.topics.targets import Target

_log = structlog.get_logger("mirrorlake")


class CompactedCopies:
    """What looks at the clusters have found of them; each is told once, until it is so no more."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def saw(self, targets: Iterable[Target]) -> None:
        """Takes what a look has found; what could not be asked of stays as it was."""
        for target in targets:
            if not target.is_topic or not target.destination_configs or not target.source_configs:
                continue
            place = target.mirror.name, target.destination.label, target.destination_topic
            if not target.loses_to_its_cleaner:
                self._told.discard(place)
            elif place not in self._told:
                self._told.add(place)
                _tell(target)


def _tell(target: Target) -> None:
    _log.warning(
        "destination topic is compacted and its source is not: the copy loses records that the source keeps",
        mirror=target.mirror.name,
        topic=target.source.topic,
        destination=target.destination.label,
        destination_topic=target.destination_topic,
        cleanup_policy=target.destination_configs.get("cleanup.policy"),
        source_cleanup_policy=target.source_configs.get("cleanup.policy"),
        hint="`mirrorlake topics apply` with `sync: {configs: apply}` gives it the source's policy, and `verify` says "
        "what is lost; `sync: {override: {cleanup.policy: compact}}` says that the copy is meant to be compacted",
    )
