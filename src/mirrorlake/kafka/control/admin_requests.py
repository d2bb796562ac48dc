"""Requests about topics and their configuration: what is sent, and what the answers say."""

from collections.abc import Mapping, Sequence
from typing import Any

from mirrorlake.kafka.control.control_requests import ControlRequest, Refused, WrittenRequest
from mirrorlake.kafka.control.descriptions import ConfigValue
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.describe_configs import (
    DESCRIBE_CONFIGS_VERSION,
    TOPIC,
    ConfigsReader,
    DescribedConfig,
    RefusedTopic,
    encode_describe_configs,
)
from mirrorlake.kafka.wire.protocol_classes import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_CONFIG_SOURCES: Mapping[int, str] = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
"""Source: ``DescribeConfigsResponse.ConfigSource`` of Apache Kafka 4.3.0."""


def create_topic_request(
    name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str], timeout_ms: int
) -> ControlRequest[Refused | None]:
    """Asks for a new topic; None for done. A replication factor of -1 takes the cluster's default."""

    def message(version: int) -> Any:
        topic = CreateTopicsRequest.CreatableTopic
        return CreateTopicsRequest(
            topics=[
                topic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=[],
                    configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
                )
            ],
            timeout_ms=timeout_ms,
            validate_only=False,
            version=version,
        )

    def read(answer: Any) -> Refused | None:
        return _refusal(answer.topics[0])

    return ControlRequest(api=Api.CREATE_TOPICS, message=message, answer=CreateTopicsResponse, read=read)


def new_topic_configs_request(
    name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str], timeout_ms: int
) -> ControlRequest[dict[str, str | None] | Refused]:
    """Asks which configuration a new topic would have, defaults included; makes none (KIP-525)."""
    like = create_topic_request(
        name, partitions=partitions, replication_factor=replication_factor, configs=configs, timeout_ms=timeout_ms
    )

    def message(version: int) -> Any:
        asked = like.message(version)
        asked.validate_only = True
        return asked

    def read(answer: Any) -> dict[str, str | None] | Refused:
        topic = answer.topics[0]
        # Before version 5, and for who may not describe it, the answer has none.
        return _refusal(topic) or {config.name: config.value for config in topic.configs or ()}

    return ControlRequest(api=Api.CREATE_TOPICS, message=message, answer=CreateTopicsResponse, read=read)


def delete_topic_request(name: str, *, timeout_ms: int) -> ControlRequest[Refused | None]:
    """Asks to delete a topic; None for done."""

    def message(version: int) -> Any:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms, version=version)

    def read(answer: Any) -> Refused | None:
        code = answer.responses[0].error_code
        return Refused(code) if code else None

    return ControlRequest(api=Api.DELETE_TOPICS, message=message, answer=DeleteTopicsResponse, read=read)


def create_partitions_request(name: str, *, partitions: int, timeout_ms: int) -> ControlRequest[Refused | None]:
    """Asks to raise the number of a topic's partitions to ``partitions``; None for done."""

    def message(version: int) -> Any:
        topic = CreatePartitionsRequest.CreatePartitionsTopic
        return CreatePartitionsRequest(
            topics=[topic(name=name, count=partitions, assignments=None)],
            timeout_ms=timeout_ms,
            validate_only=False,
            version=version,
        )

    def read(answer: Any) -> Refused | None:
        return _refusal(answer.results[0])

    return ControlRequest(api=Api.CREATE_PARTITIONS, message=message, answer=CreatePartitionsResponse, read=read)


def _refusal(result: Any) -> Refused | None:
    return Refused(result.error_code, result.error_message) if result.error_code else None


Configs = Mapping[str, ConfigValue]
"""A topic's configurations by name; many topics share one such mapping, so nobody changes it."""

TOPICS_REMEMBERED_MAX = 100_000
"""Of how many topics a client remembers the bytes of their configurations, some 1.5 kB of each unlike all others."""


def configs_reader() -> ConfigsReader[Configs]:
    """Returns what reads answers about configurations, and remembers them for the next answer."""
    return ConfigsReader(_read_configs, topics_max=TOPICS_REMEMBERED_MAX)


def _read_configs(configs: Sequence[DescribedConfig]) -> Configs:
    return {
        each.name: ConfigValue(
            value=each.value,
            source=_CONFIG_SOURCES.get(each.source, "UNKNOWN"),
            is_read_only=each.is_read_only,
            is_sensitive=each.is_sensitive,
        )
        for each in configs
    }


def describe_configs_request(
    topics: Sequence[str], reader: ConfigsReader[Configs]
) -> ControlRequest[dict[str, Configs | Refused]]:
    """Asks for all configurations of topics.

    Args:
        topics: by name.
        reader: see `configs_reader`.
    """

    def message(version: int) -> Any:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        return DescribeConfigsRequest(
            resources=[resource(resource_type=TOPIC, resource_name=name, configuration_keys=None) for name in topics],
            include_synonyms=False,
            include_documentation=False,
            version=version,
        )

    def read(answer: Any) -> dict[str, Configs | Refused]:
        return {
            result.resource_name: Refused(result.error_code, result.error_message)
            if result.error_code
            else _read_configs(
                [
                    DescribedConfig(each.name, each.value, each.read_only, each.config_source, each.is_sensitive)
                    for each in result.configs
                ]
            )
            for result in answer.results
        }

    def read_written(view: memoryview) -> dict[str, Configs | Refused]:
        return {
            topic: Refused(found.error_code, found.message) if isinstance(found, RefusedTopic) else found
            for topic, found in reader.decode(view).items()
        }

    return ControlRequest(
        api=Api.DESCRIBE_CONFIGS,
        message=message,
        answer=DescribeConfigsResponse,
        read=read,
        written=WrittenRequest(
            version=DESCRIBE_CONFIGS_VERSION, body=lambda: encode_describe_configs(topics), read=read_written
        ),
    )


_SET = 0
"""Kafka's number for giving a setting a value (``AlterConfigOp.OpType`` of Apache Kafka 4.3.0)."""


def set_topic_configs_request(
    name: str, configs: Mapping[str, str], *, is_trial: bool
) -> ControlRequest[Refused | None]:
    """Asks to set configurations of a topic, all or none, and to leave its others, or if they could be (KIP-339)."""

    def message(version: int) -> Any:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        changes = [
            resource.AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in configs.items()
        ]
        return IncrementalAlterConfigsRequest(
            resources=[resource(resource_type=TOPIC, resource_name=name, configs=changes)],
            validate_only=is_trial,
            version=version,
        )

    def read(answer: Any) -> Refused | None:
        return _refusal(answer.responses[0])

    return ControlRequest(
        api=Api.INCREMENTAL_ALTER_CONFIGS, message=message, answer=IncrementalAlterConfigsResponse, read=read
    )
