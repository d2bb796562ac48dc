"""How a client proves who it is and who it talks to: values only, no files read, no sockets.

They stand in the core because the configuration checks them and the wire client uses them. All can be pickled into a
Spark task; what is secret is a `Secret` and prints as stars.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from mirrorlake.secret import Secret


class SecurityProtocol(StrEnum):
    """Kafka's ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        """True where TLS is spoken."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_authenticated(self) -> bool:
        """True where SASL is spoken."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(StrEnum):
    """Kafka's ``sasl.mechanism``."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Whom to trust, and what to show. Certificates and keys are PEM; files are read when a connection is made.

    Attributes:
        trusted_file: certificates trusted; with neither this nor the next, those of the operating system.
        trusted_pem: the same, as text.
        own_file: certificate chain shown to the broker; holds the private key too unless the next is set.
        own_key_file: the private key.
        own_chain_pem: the certificate chain as text, with ``own_key_pem``.
        own_key_pem: the private key as text.
        own_key_password: of an encrypted private key.
        checks_hostname: whether the certificate must name the host that was dialled (RFC 6125); off is for tests only.
        versions: of ``TLSv1.2`` and ``TLSv1.3``, those that may be spoken.
    """

    trusted_file: Path | None = None
    trusted_pem: str | None = None
    own_file: Path | None = None
    own_key_file: Path | None = None
    own_chain_pem: str | None = None
    own_key_pem: Secret | None = None
    own_key_password: Secret | None = None
    checks_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")

    @property
    def has_own_certificate(self) -> bool:
        """Whether the client shows a certificate (mutual TLS)."""
        return self.own_file is not None or self.own_chain_pem is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Where OAUTHBEARER tokens come from: the client credentials grant (RFC 6749 §4.4), or a file.

    Attributes:
        endpoint_url: ``https://…`` (or ``http://…``) of the token endpoint, or ``file:///…`` of a file that holds the
            token itself, read each time one is needed.
        client_id: None for a file, or where ``jaas`` holds it.
        client_secret: likewise.
        scope: asked for; empty for none.
        encodes_credentials: whether id and secret are URL-encoded before Basic authentication, as RFC 6749 §2.3.1
            wants it and many servers do not (KIP-1074).
    """

    endpoint_url: str
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str = ""
    encodes_credentials: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """Who the client is.

    Attributes:
        mechanism: how it proves it.
        username: for PLAIN and SCRAM; None where ``jaas`` holds it.
        password: likewise.
        token: for OAUTHBEARER.
        jaas: the text of ``sasl.jaas.config``; read when a connection is made, as its file may change.
    """

    mechanism: SaslMechanism
    username: str | None = None
    password: Secret | None = None
    token: TokenSettings | None = None
    jaas: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """Security of one cluster; the default is none. ``sasl`` is set exactly where the protocol speaks SASL."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings = field(default_factory=TlsSettings)
    sasl: SaslSettings | None = None

    def __post_init__(self) -> None:
        if (self.sasl is not None) != self.protocol.is_authenticated:
            raise ValueError(f"SASL settings and security protocol {self.protocol} contradict each other")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    """One login module of a JAAS configuration. ``options`` may hold secrets and are not shown."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)
