"""A Kafka cluster of several nodes on this machine, to kill, freeze and restart them one by one."""

import asyncio
import random
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from kafka import TopicPartition as ClientPartition

from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import archive_options
from mirrorlake.errors import MirrorlakeError
from mirrorlake.java import find_java
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ClusterMetadata
from mirrorlake.offsets import TopicPartition
from support.admin import admin_client
from support.records import settings_of

START_SECONDS_MAX = 120.0
TRANSACTION_STATE = "__transaction_state"
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.showDateTime=true")
_SMALL: Mapping[str, str] = MappingProxyType(
    {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "6",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "num.network.threads": "2",
        "num.io.threads": "3",
        "background.threads": "2",
        "log.retention.ms": "-1",
        "log.cleaner.dedupe.buffer.size": "16777216",
        # A dead broker's partitions get new leaders after the session's time-out; a dead controller a successor.
        "broker.session.timeout.ms": "8000",
        "broker.heartbeat.interval.ms": "1000",
        "metadata.max.idle.interval.ms": "10000",
        "controller.quorum.election.timeout.ms": "800",
        "controller.quorum.fetch.timeout.ms": "1500",
        "leader.imbalance.check.interval.seconds": "3600",
    }
)


class KafkaNode:
    """One node, broker and controller in one JVM."""

    def __init__(self, number: int, folder: Path, command: Sequence[str], port: int) -> None:
        self.number = number
        self.port = port
        self.folder = folder
        self._command = command
        self._process: GuardedProcess | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.exit_code is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Starts it and does not wait until it serves. Does nothing where it runs."""
        if not self.is_running:
            self._process = GuardedProcess(self._command, log_path=self.folder / "broker.log")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop(timeout_seconds=30.0)
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None
        self._process.resume()


class KafkaNodes:
    """``count`` nodes that are all brokers and voters; new topics have a replica on every one unless told.

    Args:
        folder: made where it is missing.
        libs: Kafka's jars.
        count: of nodes, numbered from 1.
        front: given a node's own port, the port it advertises: a proxy's. Its own by default.
        properties: of every broker.
        heap_mb: of each JVM.
    """

    def __init__(
        self,
        folder: Path,
        *,
        libs: Path,
        count: int = 3,
        front: Callable[[int, int], int] | None = None,
        properties: Mapping[str, str] = MappingProxyType({}),
        heap_mb: int = 256,
    ) -> None:
        java = find_java().executable
        self._java = [str(java), f"-Xmx{heap_mb}m", *_JVM, *archive_options(java, libs), "-cp", f"{libs}/*"]
        self._count = count
        self._own_properties = dict(properties)
        self._folder = folder
        ports = _dead_ports(3 * count)
        self._controllers = {number: ports[count + number - 1] for number in range(1, count + 1)}
        self._inside = {number: ports[2 * count + number - 1] for number in range(1, count + 1)}
        self.nodes = {number: self._node(number, ports[number - 1], front) for number in range(1, count + 1)}

    @property
    def bootstrap_servers(self) -> str:
        """Every node's own port: clients that begin there go on at what the brokers advertise."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def inside_servers(self) -> str:
        """The way past whatever stands in ``front``: brokers, and clients that begin here, stay on it."""
        return ",".join(f"127.0.0.1:{port}" for port in self._inside.values())

    def start(self) -> Self:
        """Formats and starts all of them; returns when the cluster serves."""
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*self._java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c"]
        formatting = [
            subprocess.Popen(
                [*tool, str(node.folder / "server.properties")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for node in self.nodes.values()
        ]
        for process in formatting:
            _, said = process.communicate(timeout=START_SECONDS_MAX)
            assert process.returncode == 0, said.decode()
        for node in self.nodes.values():
            node.begin()
        self.await_all()
        asyncio.run(self._make_coordinators())
        self.await_all()
        return self

    def await_all(self) -> None:
        """Waits until every node is a registered broker and every partition has all its replicas in sync."""
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not self._is_whole():
            dead = [node.number for node in self.nodes.values() if not node.is_running]
            assert not dead, f"nodes {dead} died: {self._log(dead[0])}"
            assert time.monotonic() < give_up_at, self._log(1)
            time.sleep(0.2)

    def revive(self) -> None:
        """Starts whoever is dead, and waits until the cluster is whole."""
        for node in self.nodes.values():
            node.begin()
        self.await_all()

    def _living(self) -> str:
        return ",".join(f"127.0.0.1:{self._inside[node.number]}" for node in self.nodes.values() if node.is_running)

    def create_topic(self, topic: str, assignments: Mapping[int, Sequence[int]], **configs: str) -> None:
        """Creates a topic whose partitions' replicas lie on these nodes, the first of each its leader."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        replicas = {number: list(nodes) for number, nodes in assignments.items()}
        with admin_client(self._living()) as admin:
            admin.create_topics({topic: {"assignments": replicas, "configs": settings}}, wait_for_metadata=True)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the node that leads the partition, -1 while none does."""
        found = asyncio.run(self._metadata()).partition(TopicPartition(topic, partition))
        return -1 if found is None else found.leader

    def move(self, topic: str, nodes: Sequence[int]) -> None:
        """Gives every partition of the topic these replicas, the first one the leader; returns when it is so."""
        found = asyncio.run(self._metadata()).topics[topic].partitions
        with admin_client(self._living()) as admin:
            admin.alter_partition_reassignments({ClientPartition(topic, number): list(nodes) for number in found})
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not self._lies_on(topic, set(nodes)):
            assert time.monotonic() < give_up_at, f"{topic} does not move to {nodes}"
            time.sleep(0.2)

    def _lies_on(self, topic: str, nodes: set[int]) -> bool:
        partitions = asyncio.run(self._metadata()).topics[topic].partitions.values()
        return all(set(each.isr) == set(each.replicas) == nodes and each.leader in nodes for each in partitions)

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The nodes in sync, as the controller sees it."""
        found = asyncio.run(self._metadata()).partition(TopicPartition(topic, partition))
        return () if found is None else found.isr

    def coordinator(self, transactional_id: str) -> int:
        """The number of the node that coordinates the transactional id."""
        text = 0
        for letter in transactional_id.encode("utf-16-be")[1::2]:
            text = (text * 31 + letter) & 0xFFFFFFFF
        count = len(asyncio.run(self._metadata()).topics[TRANSACTION_STATE].partitions)
        return self.leader(TRANSACTION_STATE, (text & 0x7FFFFFFF) % count)

    def controller(self) -> KafkaNode:
        """The active controller."""
        with admin_client(self._living()) as admin:
            quorum = admin.describe_metadata_quorum()
        ((partition,),) = [topic["partitions"] for topic in quorum["topics"]]
        return self.nodes[int(partition["leader_id"])]

    def stop(self) -> None:
        """Kills them: nobody needs what they hold."""
        for node in self.nodes.values():
            node.kill()

    def _is_whole(self) -> bool:
        try:
            found = asyncio.run(self._metadata())
        except MirrorlakeError:
            return False
        partitions = [partition for topic in found.topics.values() for partition in topic.partitions.values()]
        return len(found.brokers) == self._count and all(
            each.leader >= 0 and set(each.isr) == set(each.replicas) for each in partitions
        )

    async def _make_coordinators(self) -> None:
        """Their topic is made when the first one asks for them."""
        async with ClusterClient(settings_of(self.inside_servers)) as client:
            await client.init_producer_id("first", transaction_timeout_ms=10_000)

    async def _metadata(self) -> ClusterMetadata:
        async with ClusterClient(settings_of(self.inside_servers)) as client:
            return await client.metadata(refresh=True)

    def _log(self, number: int) -> str:
        lines = (self.nodes[number].folder / "broker.log").read_text().splitlines()
        return "\n".join([line for line in lines if "ERROR" in line or "Exception" in line][:15] or lines[-15:])

    def _node(self, number: int, port: int, front: Callable[[int, int], int] | None) -> KafkaNode:
        folder = self._folder / f"node-{number}"
        (folder / "tmp").mkdir(parents=True)
        replicas = str(min(3, self._count))
        properties = {
            **_SMALL,
            "process.roles": "broker,controller",
            "node.id": str(number),
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in self._controllers.items()),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{self._controllers[number]},"
            f"INSIDE://127.0.0.1:{self._inside[number]}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            # Brokers talk past the proxies: the faults are between clients and the cluster.
            "inter.broker.listener.name": "INSIDE",
            "log.dirs": str((folder / "data").absolute()),
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "min.insync.replicas": "1",
            **self._own_properties,
        }
        listeners = properties["listeners"]
        if front is not None:
            listeners = listeners.replace(
                f"PLAINTEXT://127.0.0.1:{port},", f"PLAINTEXT://127.0.0.1:{front(number, port)},"
            )
        properties["advertised.listeners"] = listeners
        (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        command = [*self._java[:-2], f"-Djava.io.tmpdir={folder / 'tmp'}", *self._java[-2:], "kafka.Kafka"]
        return KafkaNode(number, folder, [*command, str(folder / "server.properties")], port)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _dead_ports(count: int) -> list[int]:
    """Free ports below those that outgoing connections get: a dead node's must not be taken while it is dead."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(14_000, 32_000)
        with socket.socket() as probe:
            if port not in ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                ports.append(port)
    return ports
