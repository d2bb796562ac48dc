"""Plans of leases with thousands of partitions."""

import random

from mirrorlake.clock import SystemClock
from mirrorlake.destinations.interface import ProducerHandOff
from mirrorlake.destinations.orders import Orders
from mirrorlake.destinations.preserve.settings import PreserveSettings
from mirrorlake.destinations.preserve.work import PreserveWork
from mirrorlake.kafka.control.descriptions import ProducerIdentity
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.mirror.work import LeasePlan, PartitionWork
from mirrorlake.moments import Moment
from mirrorlake.offsets import TopicPartition
from mirrorlake.secret import Secret
from mirrorlake.security import ClientSecurity, SaslMechanism, SaslSettings, SecurityProtocol
from mirrorlake.sources.kafka.work import KafkaSourceWork
from mirrorlake.sources.mark import SourceMark

PARTITIONS_PER_TOPIC = 30


def large_plan(partitions: int, chance: random.Random, password: Secret) -> LeasePlan:
    """Returns a plan in which every partition is at a position of its own, after leases that ended in order."""
    sasl = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="app", password=password)
    security = ClientSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    east, west = (
        ClusterSettings(name=name, bootstrap_servers=(f"{name}.example:9092",), client_id="m", security=security)
        for name in ("east", "west")
    )
    left = [ProducerHandOff(identity=ProducerIdentity(producer_id=1_000 + n, producer_epoch=3)) for n in range(64)]
    topic_ids = [f"{chance.getrandbits(72):022d}" for _ in range(-(-partitions // PARTITIONS_PER_TOPIC))]
    source_work = KafkaSourceWork(cluster=east)
    works = []
    for number in range(partitions):
        topic, partition = divmod(number, PARTITIONS_PER_TOPIC)
        source, position = TopicPartition(f"a-topic-of-usual-length-{topic}", partition), chance.randrange(1_000_000)
        settings = PreserveSettings(
            source=source,
            destination=source,
            transactional_id=f"mirrorlake.all.{number % 64}",
            batch_bytes_max=1 << 20,
        )
        orders = Orders(needs_tail_check=False, last_position=position, hand_off=left[number % 64])
        works.append(
            PartitionWork(
                mirror="all",
                source_work=source_work,
                source=source,
                topic_id=topic_ids[topic],
                end_offset=None,
                destinations=(PreserveWork(destination="west", cluster=west, settings=settings, orders=orders),),
                marks=(SourceMark(epoch=4, offset=position, leader_epoch=4),),
            )
        )
    return LeasePlan(
        lease=1,
        lane=0,
        live_seconds=5.0,
        unbroken_seconds=5.0,
        send_seconds=5.5,
        hard_seconds=5.5,
        memory_bytes_max=1 << 28,
        begins_by=Moment.of(SystemClock(), in_seconds=3600.0),
        partitions=tuple(works),
    )
