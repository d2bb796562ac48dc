"""Topics of a cluster: created, grown, deleted, and their configurations."""

import asyncio
from collections.abc import Mapping, Sequence

from mirrorlake.errors import BrokerNotReadyError, MirrorlakeError, TopicMissingError, TransientError
from mirrorlake.kafka.control.admin_requests import (
    Configs,
    configs_reader,
    create_partitions_request,
    create_topic_request,
    delete_topic_request,
    describe_configs_request,
    new_topic_configs_request,
    set_topic_configs_request,
)
from mirrorlake.kafka.control.brokers import Brokers
from mirrorlake.kafka.control.control_requests import LATEST, Refused
from mirrorlake.kafka.control.leaders import ask_offsets
from mirrorlake.kafka.control.rights import Rights, topic_rights_request
from mirrorlake.kafka.wire.error_codes import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION, error_for
from mirrorlake.kafka.wire.fetch import READ_UNCOMMITTED
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

CONFIGS_PER_REQUEST = 500
"""Topics: their configurations are some 0.7 MB then, which one buffer holds."""

_LEFT_OUT = Refused(-1, "the broker left it out of its answer")
_VISIBLE_PAUSE_SECONDS = 0.05


class Topics:
    """Asks one cluster about its topics, and changes them; nothing is tried again here but as the methods say.

    Args:
        brokers: of the cluster.
        settings: of the cluster.
    """

    def __init__(self, brokers: Brokers, settings: ClusterSettings) -> None:
        self._brokers = brokers
        self._settings = settings
        self._configs_reader = configs_reader()

    async def create(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> bool:
        """Creates a topic and waits until all its partitions have leaders; returns False where it was there already.

        Args:
            name: of the topic. One that exists is left as it is, whatever its partitions and configuration.
            partitions: at least 1.
            replication_factor: -1 for the cluster's default.
            configs: topic configuration by name.

        Raises:
            UnsupportedError: replication factor, name or configuration are not possible there.
            PermissionDeniedError: an ACL or a policy says no.
            BrokerNotReadyError: created, but without leaders after the request timeout.
        """
        request = create_topic_request(
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            timeout_ms=self._timeout_ms,
        )
        refused = await self._brokers.ask_controller(request)
        if refused is not None and refused.code == TOPIC_ALREADY_EXISTS:
            return False
        self._raise_for(refused, "CreateTopics", name)
        await self._until_led(name, partitions)
        return True

    async def configs_if_created(
        self, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Returns the configuration a topic would have if it were created so, the cluster's defaults included.

        Creates nothing. Empty where the broker does not say, and where the topic is there already: then it has its own.

        Raises:
            MirrorlakeError: it could not be created so.
        """
        answer = await self._brokers.ask_controller(
            new_topic_configs_request(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                timeout_ms=self._timeout_ms,
            )
        )
        if not isinstance(answer, Refused):
            return answer
        if answer.code == TOPIC_ALREADY_EXISTS:
            return {}
        raise self._error(answer, "CreateTopics", name)

    async def grow(self, name: str, *, partitions: int) -> None:
        """Raises the number of a topic's partitions to ``partitions`` and waits until all have leaders.

        Raises:
            TopicMissingError: no such topic.
            UnsupportedError: it has as many or more.
        """
        request = create_partitions_request(name, partitions=partitions, timeout_ms=self._timeout_ms)
        self._raise_for(await self._brokers.ask_controller(request), "CreatePartitions", name)
        await self._until_led(name, partitions)

    async def delete(self, name: str) -> bool:
        """Deletes a topic; returns False where there was none."""
        refused = await self._brokers.ask_controller(delete_topic_request(name, timeout_ms=self._timeout_ms))
        self._brokers.forget_topic(name)
        if refused is not None and refused.code == UNKNOWN_TOPIC_OR_PARTITION:
            return False
        self._raise_for(refused, "DeleteTopics", name)
        return True

    async def configs(self, names: Sequence[str]) -> dict[str, Configs | MirrorlakeError]:
        """Returns all configurations of each topic by name, those from defaults included.

        Topics that have the same ones may share a mapping: nobody changes it.
        """
        found: dict[str, Configs | MirrorlakeError] = {}
        for start in range(0, len(names), CONFIGS_PER_REQUEST):
            asked = names[start : start + CONFIGS_PER_REQUEST]
            answers = await self._brokers.ask_any(describe_configs_request(asked, self._configs_reader))
            for name in asked:
                answer = answers.get(name, _LEFT_OUT)
                found[name] = self._error(answer, "DescribeConfigs", name) if isinstance(answer, Refused) else answer
        return found

    async def set_configs(self, name: str, configs: Mapping[str, str], *, is_trial: bool = False) -> None:
        """Sets configurations of a topic, all or none; its others stay as they are. A trial only asks if they could be.

        Raises:
            TopicMissingError: no such topic.
            PermissionDeniedError: an ACL or a policy says no.
            UnsupportedError: the brokers do not take one of them.
        """
        refused = await self._brokers.ask_controller(set_topic_configs_request(name, configs, is_trial=is_trial))
        self._raise_for(refused, "IncrementalAlterConfigs", name)

    async def rights(self, names: Sequence[str]) -> Rights:
        """Returns what this user may do with each topic, by Kafka's names such as ``WRITE``.

        Topics that do not exist or may not be described, and all of them where the brokers are older than 2.3, are
        absent: what may be done with them is not known.
        """
        return await self._brokers.ask_any(topic_rights_request(names)) if names else {}

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.request_timeout_seconds * 1000)

    async def _until_led(self, name: str, partitions: int) -> None:
        """Waits until every partition's leader answers as such; metadata names it a moment before it knows."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.request_timeout_seconds
        wanted = [TopicPartition(name, number) for number in range(partitions)]
        while True:
            # Not their log ends: a topic in a format before Kafka 0.11 has no leader epochs to find them by.
            ends = await ask_offsets(self._brokers, wanted, timestamp=LATEST, isolation_level=READ_UNCOMMITTED)
            if not any(isinstance(end, TransientError | TopicMissingError) for end in ends.values()):
                return
            if loop.time() > deadline:
                break
            await asyncio.sleep(_VISIBLE_PAUSE_SECONDS)
            await self._brokers.metadata((name,), refresh=True)
        raise BrokerNotReadyError(
            f"topic {name} is there in cluster {self._settings.name!r}, but not all its partitions have leaders yet",
            topic=name,
        )

    def _raise_for(self, refused: Refused | None, what: str, topic: str) -> None:
        if refused is not None:
            raise self._error(refused, what, topic)

    def _error(self, refused: Refused, what: str, topic: str) -> MirrorlakeError:
        what = f"{what} of {topic} in cluster {self._settings.name!r}"
        return error_for(refused.code, what=what, message=refused.message, topic=topic)
