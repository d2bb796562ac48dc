"""The rights `docs/security.md` asks for are enough, and each of them is needed: without it the error names it."""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from conftest import RunAsync
from mirrorlake.clock import SystemClock
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.destinations.connections import WorkerCache
from mirrorlake.destinations.map.progress_store import ProgressTopics
from mirrorlake.destinations.transactions.owner_states import STATE_TOPIC, OwnerState, read_states
from mirrorlake.destinations.transactions.owner_states import transactional_id as owner_id
from mirrorlake.destinations.transactions.ownership import Ownership
from mirrorlake.errors import MirrorlakeError, PermissionDeniedError
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.mirror.work import LeasePlan
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, PlanRow, read_plan
from mirrorlake.service.states import state_of
from mirrorlake.service.status import read_rows
from mirrorlake.topics.discovery import find_targets
from mirrorlake.topics.targets import SHARDS_PER_MIRROR, Target, shard_of
from mirrorlake.topics.topic_creation import create_topics
from mirrorlake.verify.verdict import Result
from mirrorlake.verify.verification import RecordVerification
from mirrorlake.verify.worker import work as verify_task
from support.acls import Right, grant_exactly
from support.copies import assert_same_records, create_topic, source_end
from support.leases import lease_plan, run_lease
from support.records import consume, settings_of, simple_records
from support.secured_kafka import LIMITED, LIMITED_PASSWORD, PASSWORD, PLAIN_USER, SecuredKafka
from support.topics import append, make_topic
from support.transactions import append_in_transaction

pytestmark = pytest.mark.slow

RECORDS = 20


def source_rights(topic: str) -> list[Right]:
    return [Right("TOPIC", topic, "READ"), Right("TOPIC", topic, "DESCRIBE_CONFIGS")]


def preserve_rights(mirror: str) -> list[Right]:
    return [*rights_on(f"{mirror}-copy"), writer_right(mirror), *state_rights()]


def map_rights(mirror: str) -> list[Right]:
    rights = [right for topic in map_topics(mirror) for right in rights_on(topic)]
    return [*rights, writer_right(mirror), *state_rights()]


def map_topics(mirror: str) -> list[str]:
    own = ProgressTopics(mirror=mirror, shards=SHARDS_PER_MIRROR)
    return [f"{mirror}-copy", own.progress, own.pages]


def rights_on(topic: str) -> list[Right]:
    return [Right("TOPIC", topic, operation) for operation in ("CREATE", "READ", "WRITE", "DESCRIBE_CONFIGS")]


def writer_right(mirror: str) -> Right:
    return Right("TRANSACTIONAL_ID", f"mirrorlake.{mirror}.", "WRITE", is_prefix=True)


def owner_right(mirror: str) -> Right:
    """The mirror's own transactional id without its shards'."""
    return Right("TRANSACTIONAL_ID", owner_id(mirror), "WRITE")


def reading(rights: list[Right]) -> list[Right]:
    return [right for right in rights if right.operation in ("READ", "DESCRIBE_CONFIGS")]


def state_rights() -> list[Right]:
    return [Right("TOPIC", STATE_TOPIC, "READ"), Right("TOPIC", STATE_TOPIC, "WRITE")]


def configuration(
    kafka: SecuredKafka,
    topic: str,
    *,
    source_user: str,
    destination_user: str,
    offsets: str = "preserve",
    on_recreate: str = "park",
) -> Configuration:
    """A mirror to ``{topic}-copy``, named like its source topic."""

    def cluster(name: str, user: str) -> str:
        return (
            f"  {name}:\n    bootstrap-servers: '{kafka.servers('CLEAR')}'\n    properties:\n"
            f"      security.protocol: SASL_PLAINTEXT\n      sasl.mechanism: PLAIN\n      sasl.username: {user}\n"
            f"      sasl.password: ${{{user.upper()}}}\n"
        )

    text = (
        f"clusters:\n{cluster('east', source_user)}{cluster('west', destination_user)}"
        f"mirrors:\n  - name: {topic}\n    on-recreate: {on_recreate}\n"
        f"    source: {{cluster: east, topics: [{topic}]}}\n"
        f"    destinations: [{{type: kafka, cluster: west, topic: '{{topic}}-copy', offsets: {offsets}}}]\n"
    )
    environ = {LIMITED.upper(): LIMITED_PASSWORD, PLAIN_USER.upper(): PASSWORD}
    return parse_configuration(text.encode(), file="test.yaml", environ=environ)


async def prepare(config: Configuration) -> Target:
    """Does what the driver does before the first lease of a topic's first partition; raises what stands against it."""
    clients = WorkerCache()
    try:
        target = (await find_targets(config, clients))[0]
        if target.error is not None:
            raise target.error
        for error in (await create_topics([target], clients)).values():
            raise error
        destination = clients.client(config.mirrors[0].kafka_destinations[0].cluster.settings)
        await read_states(destination)
        ownership = Ownership(destination, mirror=target.mirror.name, owner="test", clock=SystemClock())
        await ownership.take(
            OwnerState(
                mirror=target.mirror.name,
                source_cluster_id=target.source_cluster_id,
                shards=SHARDS_PER_MIRROR,
                topic_ids={target.source.topic: target.topic_id},
                destinations={target.destination_topic: target.source.topic},
            )
        )
        return target
    finally:
        await clients.close()


def lease_of(target: Target, end: int) -> LeasePlan:
    work = state_of(target, writer="test").work
    plan = lease_plan("unused:1", [(target.source, [work])], end=end)
    (partition,) = plan.partitions
    return replace(plan, partitions=(replace(partition, source_work=target.source_work),))


def copy_once(config: Configuration, run_async: RunAsync, *, end: int = RECORDS) -> MirrorlakeError | None:
    """Copies the topic up to a source offset as a service would; returns the first error."""
    try:
        target = run_async(prepare(config))
    except MirrorlakeError as error:
        return error
    (row,) = run_lease(lease_of(target, end)).values()
    return row.error


async def verdicts(config: Configuration) -> list[Result]:
    """What ``verify`` finds, which begins with what ``status`` reads."""
    clients = WorkerCache()
    try:
        rows = await read_rows(await find_targets(config, clients), clients)
    finally:
        await clients.close()
    assert [row.error for row in rows] == [None] * len(rows)
    verification = RecordVerification(rows, run_task=lambda task: verify_task(task.plan), tasks_at_once=1)
    return [verdict.result for verdict in await asyncio.to_thread(verification.run)]


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


@pytest.mark.quick
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
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, preserve_rights(topic))
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    assert copy_once(config, run_async) is None
    servers = secured_kafka.bootstrap_servers
    assert_same_records(consume(servers, topic, 0), consume(servers, f"{topic}-copy", 0))
    grant_exactly(servers, LIMITED, reading(preserve_rights(topic)))
    assert run_async(verdicts(config)) == [Result.EQUAL]


@pytest.mark.parametrize("missing", range(7))
def test_each_right_of_a_destination_is_named_where_it_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, missing: int
) -> None:
    rights = preserve_rights(topic)
    lacking = rights.pop(missing)
    if lacking.operation == "DESCRIBE_CONFIGS":  # asked of a topic that is there already
        make_topic(secured_kafka.bootstrap_servers, f"{topic}-copy", [])
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    assert_names(copy_once(config, run_async), lacking)


@pytest.fixture
def gapped_topic(secured_kafka: SecuredKafka, topic: str, run_async: RunAsync) -> str:
    """Offsets 0…4 are deleted, 20…24 hold an aborted transaction and its marker, 25 and 26 records."""
    servers = secured_kafka.bootstrap_servers
    append_in_transaction(servers, topic, simple_records(4, start=RECORDS), committed=False)
    append(servers, topic, 0, simple_records(2, start=RECORDS + 5))

    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert list((await client.delete_records({TopicPartition(topic, 0): 5})).values()) == [5]

    run_async(delete())
    return topic


def test_filling_gaps_needs_one_more_right_and_that_only_below_the_log_start_of_a_source(
    secured_kafka: SecuredKafka, gapped_topic: str, run_async: RunAsync
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, gapped_topic
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    grant_exactly(servers, LIMITED, preserve_rights(topic))
    delete = Right("TOPIC", f"{topic}-copy", "DELETE")
    assert_names(copy_once(config, run_async, end=27), delete)
    grant_exactly(servers, LIMITED, [*preserve_rights(topic), delete])
    assert copy_once(config, run_async, end=27) is None
    held = consume(servers, f"{topic}-copy", 0)
    assert sorted(held) == [*range(5, RECORDS), 25, 26]
    assert_same_records(consume(servers, topic, 0), held)
    # Higher up there is nothing to delete.
    append_in_transaction(servers, topic, simple_records(1), committed=False)  # 27, marker 28
    grant_exactly(servers, LIMITED, preserve_rights(topic))
    assert copy_once(config, run_async, end=29) is None


@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_the_right_to_own_a_mirror_is_none_to_write_as_its_shards(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, offsets: str
) -> None:
    rights = preserve_rights(topic) if offsets == "preserve" else map_rights(topic)
    rights[rights.index(writer_right(topic))] = owner_right(topic)
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED, offsets=offsets)
    error = copy_once(config, run_async)
    assert_names(error, writer_right(topic))
    assert owner_id(topic) not in str(error)


@pytest.fixture(scope="module")
def mapped(secured_kafka: SecuredKafka) -> Iterator[str]:
    """The source topic of a mirror with mapped offsets that tests share; the first of them has its topics made."""
    name = f"rights-of-map-{uuid.uuid4().hex[:8]}"
    make_topic(secured_kafka.bootstrap_servers, name, [])
    yield name
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])


@pytest.fixture
def one_run_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every commit fill a page of the offset map."""
    monkeypatch.setattr("mirrorlake.destinations.map.offset_map.RUNS_PER_PAGE_MAX", 1)


def test_the_rights_of_a_destination_with_mapped_offsets_are_enough(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, one_run_a_page: None
) -> None:
    """Without the right to make them, one topic after the other is named; at last they are made and copied to."""
    servers = secured_kafka.bootstrap_servers
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED, offsets="map")
    rights = map_rights(topic)
    lacking = [right for right in rights if right.operation == "CREATE"]
    assert [right.name for right in lacking] == map_topics(topic)
    while lacking:
        grant_exactly(servers, LIMITED, [right for right in rights if right not in lacking])
        assert_names(copy_once(config, run_async), lacking.pop(0))
    grant_exactly(servers, LIMITED, rights)
    assert copy_once(config, run_async) is None
    assert copy_once(config, run_async) is None, "nor is more needed to take over what is there"
    assert_same_records(consume(servers, topic, 0), consume(servers, f"{topic}-copy", 0))
    assert consume(servers, map_topics(topic)[2], shard_of(TopicPartition(topic, 0))), "a page was full"
    grant_exactly(servers, LIMITED, reading(rights))
    assert run_async(verdicts(config)) == [Result.EQUAL]


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DESCRIBE_CONFIGS"])
@pytest.mark.parametrize("topic_number", range(3), ids=["copy", "progress", "offset-map"])
def test_each_right_of_a_destination_with_mapped_offsets_is_named_where_it_is_missing(
    secured_kafka: SecuredKafka,
    mapped: str,
    run_async: RunAsync,
    one_run_a_page: None,
    topic_number: int,
    operation: str,
) -> None:
    servers = secured_kafka.bootstrap_servers
    end = source_end(servers, mapped) + 3
    append(servers, mapped, 0, simple_records(3, start=end - 3))
    lacking = Right("TOPIC", map_topics(mapped)[topic_number], operation)
    grant_exactly(servers, LIMITED, [right for right in map_rights(mapped) if right != lacking])
    config = configuration(secured_kafka, mapped, source_user=PLAIN_USER, destination_user=LIMITED, offsets="map")
    assert_names(copy_once(config, run_async, end=end), lacking)


def test_making_the_state_topic_needs_a_right_of_its_own(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    servers = secured_kafka.bootstrap_servers
    delete_topic(servers, STATE_TOPIC)
    create = Right("TOPIC", STATE_TOPIC, "CREATE")
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    grant_exactly(servers, LIMITED, preserve_rights(topic))
    assert_names(copy_once(config, run_async), create)
    grant_exactly(servers, LIMITED, [*preserve_rights(topic), create])
    assert copy_once(config, run_async) is None


def test_adding_partitions_to_a_destination_topic_needs_a_right_of_its_own(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    servers = secured_kafka.bootstrap_servers
    create_topic(servers, f"{topic}-copy", 1)

    async def grow() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            await client.topics.grow(topic, partitions=2)

    run_async(grow())
    alter = Right("TOPIC", f"{topic}-copy", "ALTER")
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    grant_exactly(servers, LIMITED, preserve_rights(topic))
    assert_names(copy_once(config, run_async), alter)
    grant_exactly(servers, LIMITED, [*preserve_rights(topic), alter])
    assert copy_once(config, run_async) is None


def test_deleting_the_copy_of_a_topic_that_was_recreated_needs_a_right_of_its_own(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    servers = secured_kafka.bootstrap_servers
    config = configuration(
        secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED, on_recreate="restart"
    )
    grant_exactly(servers, LIMITED, preserve_rights(topic))
    assert copy_once(config, run_async) is None
    delete_topic(servers, topic)
    make_topic(servers, topic, simple_records(3, start=100))
    delete_right = Right("TOPIC", f"{topic}-copy", "DELETE")
    assert_names(copy_once(config, run_async, end=3), delete_right)
    grant_exactly(servers, LIMITED, [*preserve_rights(topic), delete_right])
    assert copy_once(config, run_async, end=3) is None
    assert_same_records(consume(servers, topic, 0), consume(servers, f"{topic}-copy", 0))


def test_no_right_at_all_names_the_first_that_is_missing(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [])
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)
    assert_names(copy_once(config, run_async), Right("TOPIC", topic, "DESCRIBE"))


def delete_topic(servers: str, topic: str) -> None:
    async def delete() -> None:
        async with ClusterClient(settings_of(servers)) as client:
            assert await client.topics.delete(topic)

    asyncio.run(delete())


def assert_names(error: MirrorlakeError | None, lacking: Right) -> None:
    assert isinstance(error, PermissionDeniedError), error
    kind = lacking.kind.lower().replace("_", " ")
    assert error.hint.startswith(f"grant {lacking.operation} on {kind} {lacking.name}")
    assert error.hint.endswith(" to this user")


def planned(config: Configuration, run_async: RunAsync) -> PlanRow:
    (row,) = run_async(read_plan(config))
    return row


@pytest.mark.parametrize("missing", range(2))
def test_plan_names_a_right_that_is_missing_at_the_source(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, missing: int
) -> None:
    rights = source_rights(topic)
    lacking = rights.pop(missing)
    rights.append(Right("TOPIC", topic, "DESCRIBE"))
    config = configuration(secured_kafka, topic, source_user=LIMITED, destination_user=PLAIN_USER)
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)

    row = planned(config, run_async)

    assert row.action is Action.REFUSE
    assert_names(row.error, lacking)


@pytest.mark.parametrize("operation", ["READ", "WRITE"])
@pytest.mark.parametrize("offsets", ["preserve", "map"])
def test_plan_names_a_right_that_is_missing_at_a_destination_topic_that_is_there(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync, operation: str, offsets: str
) -> None:
    servers = secured_kafka.bootstrap_servers
    make_topic(servers, f"{topic}-copy", [])
    rights = preserve_rights(topic) if offsets == "preserve" else map_rights(topic)
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED, offsets=offsets)
    grant_exactly(servers, LIMITED, rights)
    assert planned(config, run_async).action is Action.COPY, "with all that is needed nothing is missing"
    lacking = Right("TOPIC", f"{topic}-copy", operation)
    grant_exactly(servers, LIMITED, [right for right in rights if right != lacking])

    row = planned(config, run_async)

    assert row.action is Action.REFUSE
    assert_names(row.error, lacking)


def test_plan_names_the_right_to_make_a_destination_topic(
    secured_kafka: SecuredKafka, topic: str, run_async: RunAsync
) -> None:
    rights = preserve_rights(topic)
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, rights)
    assert planned(config, run_async).action is Action.CREATE_AND_COPY
    lacking = Right("TOPIC", f"{topic}-copy", "CREATE")
    grant_exactly(secured_kafka.bootstrap_servers, LIMITED, [right for right in rights if right != lacking])

    assert_names(planned(config, run_async).error, lacking)


def test_plan_names_the_right_to_delete_fillers_where_the_source_does_not_begin_at_0(
    secured_kafka: SecuredKafka, gapped_topic: str, run_async: RunAsync
) -> None:
    servers, topic = secured_kafka.bootstrap_servers, gapped_topic
    make_topic(servers, f"{topic}-copy", [])
    config = configuration(secured_kafka, topic, source_user=PLAIN_USER, destination_user=LIMITED)
    grant_exactly(servers, LIMITED, preserve_rights(topic))

    assert_names(planned(config, run_async).error, Right("TOPIC", f"{topic}-copy", "DELETE"))
