"""The brokers of the comparison: run as Kafka's own start script runs them, with a second listener for TLS."""

import asyncio
import datetime
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.delay_proxy import DelayProxy
from mirrorlake.embedded.kafka_server import EmbeddedKafka, free_port
from mirrorlake.errors import MirrorlakeError
from mirrorlake.kafka.control.cluster import LATEST, ClusterClient
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition

HOST = "127.0.0.1"
HEAP_MB = 1024
_LED_SECONDS_MAX = 120.0
_LED_PAUSE_SECONDS = 0.2
JVM_FLAGS = (
    *("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""Those of ``bin/kafka-run-class.sh``: what is compared is two mirrors between brokers as people run them.

On two cores the brokers' compilers take time from both mirrors: k1 was slower with them for both (2026-11-21: ours 926
against 1151 MB per CPU-second, MirrorMaker 130 against 158). Figures of one set of flags do not compare with another's.
"""
# Room for everything an input holds without a roll in the middle of a small run.
_PROPERTIES = {"log.segment.bytes": str(512 << 20)}
_KEPT_SEGMENT_BYTES = 64 << 20
KEPT_BYTES_MAX = 512 << 20
"""What a partition of a broker that forgets takes at most; what counts is its retention and what comes meanwhile."""
_FORGETS = {
    "log.segment.bytes": str(_KEPT_SEGMENT_BYTES),
    "log.retention.bytes": str(_KEPT_SEGMENT_BYTES),
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "500",
}
"""A destination that keeps the newest of a copy only.

Kept whole, a copy that is to take twenty seconds needs so much memory that what is measured at its end is how fast the
machine gives memory out (2026-11-21, a virtual machine: 0.4 s per GB for the first eleven, 3.4 s for those after), and
that lies on the fast contender's run only: the slow one is given less to copy.
"""


class BenchKafka(EmbeddedKafka):
    """A broker of which ``tls_servers`` wants TLS; ``certificate`` is to be trusted for that.

    Args:
        folder: where it keeps everything.
        libs: Kafka's jars.
        forgets: its topics keep the newest ``KEPT_BYTES_MAX`` of each partition at most, and less soon after.
    """

    def __init__(self, folder: Path, *, libs: Path, forgets: bool = False) -> None:
        properties = _PROPERTIES | (_FORGETS if forgets else {})
        super().__init__(folder, libs=libs, heap_mb=HEAP_MB, properties=properties, jvm_flags=JVM_FLAGS)
        self._tls_port = free_port(besides=self.port)
        self._behind_wire_port = free_port(besides=self.port)
        self._wire_port = free_port(besides=self.port)
        self._is_far = False
        self.certificate = folder / "certificate.pem"
        self._bundle = folder / "broker.pem"
        folder.mkdir(parents=True, exist_ok=True)
        make_certificate(self.certificate, self._bundle)

    @property
    def tls_servers(self) -> str:
        """``127.0.0.1:PORT`` of the listener with TLS."""
        return f"{HOST}:{self._tls_port}"

    @property
    def mirror_servers(self) -> str:
        """``127.0.0.1:PORT`` at which mirrors reach it; those who fill and watch it are always near."""
        return f"{HOST}:{self._wire_port}" if self._is_far else self.bootstrap_servers

    @contextmanager
    def far_away(self, round_trip_seconds: float) -> Iterator[None]:
        """Puts a wire of that length between the broker and mirrors that start within."""
        log_path = self.folder / "wire.log"
        wire = DelayProxy(
            self._wire_port, self._behind_wire_port, round_trip_seconds=round_trip_seconds, log_path=log_path
        )
        with wire:
            self._is_far = True
            try:
                yield
            finally:
                self._is_far = False

    def _properties(self) -> dict[str, str]:
        properties = super()._properties()
        for name in ("listeners", "advertised.listeners"):
            properties[name] += f",TLS://{self.tls_servers}"
        properties["listeners"] += f",FAR://{HOST}:{self._behind_wire_port}"
        properties["advertised.listeners"] += f",FAR://{HOST}:{self._wire_port}"
        properties["listener.security.protocol.map"] += ",TLS:SSL,FAR:PLAINTEXT"
        return properties | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._bundle)}


async def create_topics(server: EmbeddedKafka, topics: dict[str, int]) -> None:
    """Makes topics, by name with their partitions, and waits until each partition has its leader."""
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in topics.items()])
    finally:
        await admin.close()
    wanted = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
    settings = ClusterSettings(name="bench", bootstrap_servers=(server.bootstrap_servers,))
    async with ClusterClient(settings) as client, asyncio.timeout(_LED_SECONDS_MAX):
        # Created is not yet led: each is asked for its end until it is.
        while wanted:
            ends = await client.list_offsets(wanted, timestamp=LATEST)
            wanted = [partition for partition, end in ends.items() if isinstance(end, MirrorlakeError)]
            if wanted:
                await asyncio.sleep(_LED_PAUSE_SECONDS)
                await client.metadata(sorted({each.topic for each in wanted}), refresh=True)


def make_certificate(certificate_file: Path, bundle_file: Path, *, is_authority: bool = True) -> None:
    """Writes a certificate that vouches for itself, and the same behind its key, as Kafka wants it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate_file.write_bytes(certificate)
    bundle_file.write_bytes(private + certificate)
