"""A broker with listeners of every kind of security, for tests; every user may do everything but `LIMITED`."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from kafka.admin import KafkaAdminClient, ScramMechanism, UserScramCredentialUpsertion

from mirrorlake.embedded.kafka_server import EmbeddedKafka, free_port
from mirrorlake.secret import Secret
from mirrorlake.security import (
    ClientSecurity,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
    TokenSettings,
)
from support.certificates import Authority
from support.token_endpoint import AUDIENCE, CLIENT, CLIENT_SECRET, ISSUER, SCOPE, TokenEndpoint

USER = "alice,=x"  # characters that SCRAM escapes
PLAIN_USER = "carol"  # PLAIN's users are names of options, so they cannot have such
PASSWORD = "wonder=land,and\\more"
LIMITED = "bob"
LIMITED_PASSWORD = "builder"
REAUTHENTICATE_MS = 10_000
"""Renewed after 85 %, so that requests on their way have 1.5 s: of sessions of 1.5 s, a busy broker had 0.2 s."""

_LISTENERS: Mapping[str, str] = MappingProxyType(
    {
        "TLS": "SSL",
        "MUTUAL": "SSL",
        "EXPIRED": "SSL",
        "SASL": "SASL_SSL",
        "CLEAR": "SASL_PLAINTEXT",
        "SHORT": "SASL_SSL",  # sessions of REAUTHENTICATE_MS
        "SCRAM": "SASL_PLAINTEXT",  # that mechanism only
    }
)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SecuredKafka(EmbeddedKafka):
    """One broker; ``bootstrap_servers`` is its plaintext listener, where everybody is a super user."""

    def __init__(self, folder: Path, *, libs: Path, tokens: TokenEndpoint) -> None:
        super().__init__(folder, libs=libs)
        self.tokens = tokens
        self.authority = Authority(folder / "tls", "authority")
        self.other_authority = Authority(folder / "tls", "other-authority")
        self.broker_certificate = self.authority.issue("broker", hosts=["127.0.0.1"])
        self.expired_certificate = self.authority.issue("expired", hosts=["127.0.0.1"], days=-1)
        self.client_certificate = self.authority.issue("mirror")
        self.foreign_certificate = self.other_authority.issue("stranger")
        taken = {self.port}
        self.ports: dict[str, int] = {}
        for name in _LISTENERS:
            while (port := free_port()) in taken:
                pass
            taken.add(port)
            self.ports[name] = port

    def servers(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    # -- what clients need ----------------------------------------------------------------------------------

    @property
    def trust(self) -> TlsSettings:
        return TlsSettings(trusted_file=self.authority.file)

    def tls(self) -> ClientSecurity:
        return ClientSecurity(protocol=SecurityProtocol.SSL, tls=self.trust)

    def mutual(self) -> ClientSecurity:
        tls = TlsSettings(trusted_file=self.authority.file, own_file=self.client_certificate.bundle)
        return ClientSecurity(protocol=SecurityProtocol.SSL, tls=tls)

    def sasl(
        self,
        mechanism: SaslMechanism,
        *,
        user: str = USER,
        password: str = PASSWORD,
        protocol: SecurityProtocol = SecurityProtocol.SASL_SSL,
    ) -> ClientSecurity:
        sasl = SaslSettings(mechanism=mechanism, username=user, password=Secret(password))
        return ClientSecurity(protocol=protocol, tls=self.trust, sasl=sasl)

    def bearer(self, *, secret: str = CLIENT_SECRET, endpoint: str | None = None) -> ClientSecurity:
        token = TokenSettings(
            endpoint_url=endpoint or self.tokens.url, client_id=CLIENT, client_secret=Secret(secret), scope=SCOPE
        )
        sasl = SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, token=token)
        return ClientSecurity(protocol=SecurityProtocol.SASL_SSL, tls=self.trust, sasl=sasl)

    # -- the broker -----------------------------------------------------------------------------------------

    def add_scram_users(self) -> None:
        """Makes the SCRAM users; they live in the metadata log, so they can only be made while it runs."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            for user, password in ((USER, PASSWORD), (LIMITED, LIMITED_PASSWORD)):
                for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
                    made = UserScramCredentialUpsertion(user, mechanism, password, iterations=4096)
                    admin.alter_user_scram_credentials([made])
        finally:
            admin.close()
        time.sleep(0.2)  # the broker follows the metadata log

    def _properties(self) -> dict[str, str]:
        properties = super()._properties()
        own = [f"{name}://{self.servers(name)}" for name in _LISTENERS]
        protocols = [f"{name}:{protocol}" for name, protocol in _LISTENERS.items()]
        for name in ("listeners", "advertised.listeners"):
            properties[name] = ",".join([properties[name], *own])
        properties["listener.security.protocol.map"] = ",".join(
            [properties["listener.security.protocol.map"], *protocols]
        )
        return properties | self._security_properties()

    def _security_properties(self) -> dict[str, str]:
        properties = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:CN=mirror;User:{CLIENT};User:{USER};User:{PLAIN_USER}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker_certificate.bundle),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": str(self.expired_certificate.bundle),
            "sasl.oauthbearer.jwks.endpoint.url": self.tokens.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        for listener in ("sasl", "clear", "short"):
            properties |= _sasl_properties(listener, _MECHANISMS)
        properties |= _sasl_properties("scram", ("SCRAM-SHA-256",))
        for mechanism in _MECHANISMS:
            properties[f"listener.name.short.{mechanism.lower()}.connections.max.reauth.ms"] = str(REAUTHENTICATE_MS)
        return properties

    def _java_command(self, java: str, main_class: str, *arguments: str, heap_mb: int) -> list[str]:
        command = super()._java_command(java, main_class, *arguments, heap_mb=heap_mb)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.keys_url}"
        return [command[0], allowed, *command[1:]]


def _sasl_properties(listener: str, mechanisms: tuple[str, ...]) -> dict[str, str]:
    prefix = f"listener.name.{listener}"
    users = " ".join(
        f'user_{name}="{_in_properties(password)}"'
        for name, password in ((LIMITED, LIMITED_PASSWORD), (PLAIN_USER, PASSWORD))
    )
    jaas = {
        "PLAIN": f"{_PLAIN} required {users};",
        "SCRAM-SHA-256": f"{_SCRAM} required;",
        "SCRAM-SHA-512": f"{_SCRAM} required;",
        "OAUTHBEARER": f"{_BEARER} required;",
    }
    properties = {f"{prefix}.sasl.enabled.mechanisms": ",".join(mechanisms)}
    for mechanism in mechanisms:
        properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = jaas[mechanism]
    if "OAUTHBEARER" in mechanisms:
        properties[f"{prefix}.oauthbearer.sasl.server.callback.handler.class"] = _VALIDATOR
    return properties


def _in_properties(text: str) -> str:
    """Escaped for a Java properties file and a quoted JAAS value."""
    return text.replace("\\", "\\\\\\\\")
