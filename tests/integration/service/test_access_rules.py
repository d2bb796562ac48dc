"""The rights `docs/security.md` asks for are enough, and each of them is needed: without it the error names it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.ownership import STATE_TOPIC, Ownership, OwnerState, read_states
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.cluster import ClusterClient
from mirrorlake.mirror.connections import WorkerCache
from mirrorlake.mirror.work import KafkaWork, LeasePlan
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.discovery import create_topics, find_targets
from mirrorlake.service.states import state_of
from mirrorlake.service.targets import Target, cluster_settings
from support.acls import Right, grant_exactly
from support.copies import assert_same_records
from support.leases import lease_plan, run_lease
from support.records import consume, settings_of, simple_records
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, PASSWORD, PLAIN_USER, SecuredKafka
from support.topics import make_topic

RECORDS = 20


def source_rights(topic: str) -> list[Right]:
    return [Right("TOPIC", topic, "READ"), Right("TOPIC", topic, "DESCRIBE_CONFIGS")]


def preserve_rights(topic: str) -> list[Right]:
    return [
        Right("TOPIC", topic, "CREATE"),
        Right("TOPIC", topic, "READ"),
        Right("TOPIC", topic, "WRITE"),
        Right("TOPIC", topic, "DESCRIBE_CONFIGS"),
        Right("TRANSACTIONAL_ID", "mirrorlake.", "WRITE", is_prefix=True),
        *state_rights(),
    ]


def state_rights() -> list[Right]:
    return [Right("TOPIC", STATE_TOPIC, "READ"), Right("TOPIC", STATE_TOPIC, "WRITE")]


def configuration(kafka: SecuredKafka, topic: str, *, source_user: str, destination_user: str) -> Configuration:
    def cluster(name: str, user: str) -> str:
        return (
            f"  {name}:\n    bootstrap-servers: '{kafka.servers('CLEAR')}'\n    properties:\n"
            f"      security.protocol: SASL_PLAINTEXT\n      sasl.mechanism: PLAIN\n      sasl.username: {user}\n"
            f"      sasl.password: ${{{user.upper()}}}\n"
        )

    text = (
        f"clusters:\n{cluster('east', source_user)}{cluster('west', destination_user)}"
        f"mirrors:\n  - name: {topic}\n    source: {{cluster: east, topics: [{topic}]}}\n"
        f"    destinations: [{{type: kafka, cluster: west, topic: '{{topic}}-copy'}}]\n"
    )
    environ = {LIMITED.upper(): LIMITED_PASSWORD, PLAIN_USER.upper(): PASSWORD}
    return parse_configuration(text.encode(), file="test.yaml", environ=environ)


async def prepare(config: Configuration) -> Target:
    """Does what the driver does before the first lease, and raises what stands against it."""
    clients = WorkerCache()
    try:
        (target,) = await find_targets(config, clients)
        if target.error is not None:
            raise target.error
        for error in (await create_topics([target], clients)).values():
            raise error
        destination = clients.client(cluster_settings(config.mirrors[0].destinations[0].cluster))  # type: ignore[union-attr]
        await read_states(destination)
        ownership = Ownership(destination, mirror=target.mirror.name, owner="test", clock=SystemClock())
        await ownership.take(OwnerState(mirror=target.mirror.name, source_cluster_id="c", shards=16))
        return target
    finally:
        await clients.close()


def lease_of(target: Target) -> LeasePlan:
    work = state_of(target, writer="test").work
    assert isinstance(work, KafkaWork)
    plan = lease_plan("unused:1", [(target.source, [work])], end=RECORDS)
    (partition,) = plan.partitions
    return replace(plan, partitions=(replace(partition, cluster=target.source_cluster),))


def copy_once(config: Configuration, run_async: RunAsync) -> MirrorlakeError | None:
    """Copies the topic as a service would; returns the first error."""
    try:
        target = run_async(prepare(config))
    except MirrorlakeError as error:
        return error
    (row,) = run_lease(lease_of(target)).values()
    return row.error


@pytest.fixture
def topic(secured_kafka: SecuredKafka, topic_name: str) -> Iterator[str]:
    make_topic(secured_kafka.bootstrap_servers, topic_name, simple_records(RECORDS))
    yield topic_name
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])


@pytest.fixture(autouse=True)
def _state_topic(secured_kafka: SecuredKafka, run_async: RunAsync) -> None:
    async def make() -> None:
        async with ClusterClient(settings_of(secured_kafka.bootstrap_servers)) as client:
            await read_states(client)

    run_async(make())


def test_the_rights_of_a_source_are_enough(secured_kafka: SecuredKafka, topic: str, run_async: RunAsync) -> None:
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, source_rights(topic))
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)
    assert copy_once(config, run_async) is None
    servers = secured_kafka.bootstrap_servers
    assert_same_records(consume(servers, topic, 0), consume(servers, f"{topic}-copy", 0))


@pytest.mark.parametrize("missing", range(2))
def test_each_right_of_a_source_is_named_where_it_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, missing: int
) -> None:
    rights = source_rights(topic)
    lacking = rights.pop(missing)
    rights.append(Right("TOPIC", topic, "DESCRIBE"))  # which READ includes, and which would else be named first
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)
    assert_names(copy_once(config, run_async), lacking)


def test_the_rights_of_a_destination_are_enough(secured_kafka: SecuredKafka, topic: str, run_async: RunAsync) -> None:
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, preserve_rights(f"{topic}-copy"))
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    assert copy_once(config, run_async) is None
    servers = secured_kafka.bootstrap_servers
    assert_same_records(consume(servers, topic, 0), consume(servers, f"{topic}-copy", 0))


@pytest.mark.parametrize("missing", range(7))
def test_each_right_of_a_destination_is_named_where_it_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, missing: int
) -> None:
    rights = preserve_rights(f"{topic}-copy")
    lacking = rights.pop(missing)
    if lacking.operation == "DESCRIBE_CONFIGS":  # asked of a topic that is there already
        make_topic(secured_kafka.bootstrap_servers, f"{topic}-copy", [])
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    assert_names(copy_once(config, run_async), lacking)


def test_deleting_records_needs_a_right_of_its_own(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    partition = TopicPartition(topic, 0)
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)

    async def delete() -> int | MirrorlakeError:
        async with ClusterClient(cluster_settings(config.mirrors[0].source.cluster)) as client:
            return (await client.delete_records({partition: 5}))[partition]

    rights = [Right("TOPIC", topic, "READ"), Right("TOPIC", topic, "WRITE")]
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    refused = run_async(delete())
    assert isinstance(refused, MirrorlakeError)
    assert_names(refused, Right("TOPIC", topic, "DELETE"))
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [*rights, Right("TOPIC", topic, "DELETE")])
    assert run_async(delete()) == 5


def test_no_right_at_all_names_the_first_that_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)
    assert_names(copy_once(config, run_async), Right("TOPIC", topic, "DESCRIBE"))


def assert_names(error: MirrorlakeError | None, lacking: Right) -> None:
    assert isinstance(error, PermissionDeniedError), error
    kind = lacking.kind.lower().replace("_", " ")
    assert error.hint.startswith(f"grant {lacking.operation} on {kind} {lacking.name}")
    assert error.hint.endswith(" to this user")
