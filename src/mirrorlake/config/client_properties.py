"""Client properties under Kafka's own names: which are taken, which are not there yet, which are ours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirrorlake.config.checking import read_or_note, read_plain
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.reading import found, suggestion
from mirrorlake.config.values.files import read_secret
from mirrorlake.secret import Secret


@dataclass(frozen=True, slots=True)
class Tuning:
    """A numeric property: which field of ``ClusterSettings`` it sets, its bounds (inclusive), and what it does."""

    field: str
    minimum: int
    maximum: int
    meaning: str


_INT32_MAX = 2**31 - 1
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
TUNING: Mapping[str, Tuning] = {
    "request.timeout.ms": Tuning(
        "request_timeout_seconds", 100, 600_000, "Longest wait for an answer; 30000 where not set."
    ),
    "socket.connection.setup.timeout.ms": Tuning(
        "connect_timeout_seconds", 100, 600_000, "Longest wait for a connection; 10000 where not set."
    ),
    # A connection takes no frame above 128 MiB for Kafka's (kafka/wire/buffers.py);
    # brokers send headers beside the bytes.
    "fetch.max.bytes": Tuning(
        "fetch_bytes_max", 1024, 64 << 20, "Bytes of one answer to a fetch; every lane needs memory for one."
    ),
    "max.partition.fetch.bytes": Tuning(
        "fetch_partition_bytes_max", 1024, _INT32_MAX, "Bytes of one partition in one answer to a fetch."
    ),
    "fetch.min.bytes": Tuning("fetch_bytes_min", 1, _INT32_MAX, "Bytes a broker waits for before it answers a fetch."),
    "fetch.max.wait.ms": Tuning(
        "fetch_wait_seconds_max", 0, 60_000, "Longest time a broker waits for `fetch.min.bytes`."
    ),
}
"""Properties of numbers, by Kafka's name."""

TEXTS: Mapping[str, str] = {
    "client.id": "How brokers name this client in logs and quotas; `mirrorlake` where not set.",
}
"""Properties of text, by Kafka's name, with what they do."""

_MAY_BE_EMPTY = frozenset({"ssl.endpoint.identification.algorithm"})

CLIENT_ID_LENGTH_MAX = 249
"""Longest ``client.id``, as ``kafka.wire.settings`` has it: quotas and metrics are kept by this name."""

SECURITY: Mapping[str, str] = {
    "security.protocol": "`PLAINTEXT` (where not set), `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.",
    "sasl.mechanism": "`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`.",
    "sasl.mechanisms": "The same, as librdkafka names it.",
    "sasl.username": "User of PLAIN and SCRAM, where `sasl.jaas.config` is not set.",
    "sasl.password": "Secret: the user's password.",
    "sasl.jaas.config": "Secret: the login module with its options, as Java clients have it.",
    "sasl.oauthbearer.token.endpoint.url": "Where tokens come from: `https://…`, or `file:///…` of a token.",
    "sasl.oauthbearer.client.credentials.client.id": "Client that asks for tokens; `clientId` in a JAAS configuration.",
    "sasl.oauthbearer.client.credentials.client.secret": "Secret: of that client; `clientSecret` likewise.",
    "sasl.oauthbearer.client.id": "As above, by librdkafka's name.",
    "sasl.oauthbearer.client.secret": "Secret: as above, by librdkafka's name.",
    "sasl.oauthbearer.scope": "Scope asked for; none where not set.",
    "sasl.oauthbearer.header.urlencode": "`true` URL-encodes client id and secret, as some endpoints want; `false`.",
    "ssl.truststore.location": "PEM file (absolute path) with the certificates trusted; else the system's.",
    "ssl.truststore.certificates": "The same as PEM text.",
    "ssl.truststore.type": "`PEM`.",
    "ssl.keystore.location": "PEM file (absolute path) with the client's private key and certificate chain.",
    "ssl.keystore.key": "Secret: the private key as PEM text (PKCS 8); with the next.",
    "ssl.keystore.certificate.chain": "The certificate chain as PEM text.",
    "ssl.keystore.type": "`PEM`.",
    "ssl.key.password": "Secret: of an encrypted private key.",
    "ssl.endpoint.identification.algorithm": '`https` (where not set) checks the broker\'s name; `""` does not.',
    "ssl.enabled.protocols": "`TLSv1.2`, `TLSv1.3` or both (where not set).",
    "ssl.ca.location": "As `ssl.truststore.location`, by librdkafka's name.",
    "ssl.certificate.location": "PEM file (absolute path) with the certificate chain (librdkafka); with the next.",
    "ssl.key.location": "PEM file (absolute path) with its private key.",
}
"""Properties of SASL and TLS (Kafka's and librdkafka's names) with what they do; ``security_properties`` reads them."""

SECRET = frozenset(
    [
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "ssl.keystore.key",
        "ssl.key.password",
    ]
)
"""Those that must never stand in the file itself, nor in any output."""

OURS: Mapping[str, str] = {
    "bootstrap.servers": "write it beside `properties`, as `bootstrap-servers`",
    "acks": "it is always `all`",
    "enable.idempotence": "it is always on",
    "transactional.id": "it is made from the mirror's name",
    "isolation.level": "it is always `read_committed`",
    "group.id": "positions come from the destination, there is no group",
    "auto.offset.reset": "use `start` of the mirror's source",
    "enable.auto.commit": "positions come from the destination, nothing is committed",
    "compression.type": "batches keep the compression they have at the source",
    "max.in.flight.requests.per.connection": "it is chosen so that order holds",
    "allow.auto.create.topics": "use `create-topics` of the destination",
    "sasl.login.callback.handler.class": "OAUTHBEARER asks the token endpoint without it",
    "ssl.keystore.password": "PEM files have none; a private key may have `ssl.key.password`",
    "ssl.truststore.password": "PEM files have none",
}
"""Properties whose value exactly-once decides, and why."""

NOT_YET = frozenset(
    [
        "batch.size",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "delivery.timeout.ms",
        "linger.ms",
        "max.block.ms",
        "max.poll.records",
        "max.request.size",
        "metadata.max.age.ms",
        "partitioner.class",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.service.name",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.cipher.suites",
        "ssl.protocol",
        "transaction.timeout.ms",
    ]
)
"""Properties of Kafka's clients that have no effect here; set, they would be ignored, so they are refused."""


@dataclass(slots=True)
class PropertiesRead:
    """The properties of one cluster, sorted out; ``given`` has the names of all, those that could not be read too."""

    properties: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)

    def tuning(self) -> dict[str, Any]:
        """Returns what the properties set, as fields of ``ClusterSettings``; what is not set is absent."""
        tuning: dict[str, Any] = {
            bounds.field: int(self.properties[name]) / 1000 if name.endswith(".ms") else int(self.properties[name])
            for name, bounds in TUNING.items()
            if name in self.properties
        }
        return tuning | ({"client_id": self.properties["client.id"]} if "client.id" in self.properties else {})


def read_properties(given: Mapping[str, Tree], path: FieldPath, document: Document) -> PropertiesRead:
    """Returns a cluster's properties; notes the unknown, the unreadable, and secrets written in clear."""
    read = PropertiesRead()
    for name, value in given.items():
        where = (*path, name)
        read.given.add(name)
        if isinstance(value, UnsetText):
            continue
        if name in SECRET:
            secret = read_or_note(read_secret, value, document.place(where), document.problems)
            if secret is not None:
                read.secrets[name] = secret
        elif name in TUNING or name in TEXTS or name in SECURITY:
            if (text := read_plain(value, where, document)) is None:
                continue
            if flaw := _flaw(name, text, value):
                document.note(where, flaw)
            else:
                read.properties[name] = text
        elif name in OURS:
            document.note(where, "cannot be set", OURS[name])
        elif name in NOT_YET:
            document.note(where, f"`{name}` is not available in this version", "leave it out")
        else:
            known = [*TUNING, *TEXTS, *SECURITY]
            document.note(where, "is not a property of Kafka's clients known here", suggestion(name, known))
    return read


def _flaw(name: str, text: str, value: Tree) -> str:
    """Returns why a property cannot have a value; "" where it can."""
    if bounds := TUNING.get(name):
        is_sound = _NUMBER.fullmatch(text) and bounds.minimum <= int(text) <= bounds.maximum
        expected = f"a whole number from {bounds.minimum} to {bounds.maximum}"
        return "" if is_sound else f"expected {expected}, found {found(value)}"
    if not text.strip() and name not in _MAY_BE_EMPTY:
        return "is empty"
    if name == "client.id" and not (text.isascii() and len(text) <= CLIENT_ID_LENGTH_MAX):
        return f"expected at most {CLIENT_ID_LENGTH_MAX} characters of ASCII, found {found(value)}"
    return ""
