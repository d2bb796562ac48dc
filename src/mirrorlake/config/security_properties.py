"""What the properties of SASL and TLS mean together: one `ClientSecurity`, or every reason why not."""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from mirrorlake.config.client_properties import SECURITY, PropertiesRead
from mirrorlake.config.document import Document
from mirrorlake.config.problems import FieldPath
from mirrorlake.errors import ConfigurationError
from mirrorlake.jaas import check_login_module, read_login_module
from mirrorlake.secret import Secret
from mirrorlake.security import (
    ClientSecurity,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
    TokenSettings,
)

_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_ID = ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id")
_SECRET = ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret")
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_JAAS = "sasl.jaas.config"
_PEM = "openssl pkcs12 -in store.p12 -out store.pem makes PEM of PKCS12; keytool -importkeystore makes that of JKS"


def read_security(read: PropertiesRead, path: FieldPath, document: Document) -> ClientSecurity:
    """Returns the security of a cluster; the default where problems were noted.

    Args:
        read: the cluster's properties.
        path: where they stand.
        document: takes what is wrong; never a secret's content.
    """
    before = len(document.problems.found)
    reader = _SecurityReader(read, path, document)
    protocol = reader.protocol()
    sasl = reader.sasl() if protocol.is_authenticated else None
    tls = reader.tls()
    is_bearer = sasl is not None and sasl.mechanism is SaslMechanism.OAUTHBEARER
    if not protocol.is_encrypted and not is_bearer:  # whose token endpoint may need certificates
        reader.refuse_useless("ssl.", protocol)
    if not protocol.is_authenticated:
        reader.refuse_useless("sasl.", protocol)
    if len(document.problems.found) > before:
        return ClientSecurity()
    return ClientSecurity(protocol=protocol, tls=tls, sasl=sasl)


class _SecurityReader:
    def __init__(self, read: PropertiesRead, path: FieldPath, document: Document) -> None:
        self._texts = read.properties
        self._secrets = read.secrets
        self._given = read.given
        self._path = path
        self._document = document

    def protocol(self) -> SecurityProtocol:
        text = self._texts.get("security.protocol", "PLAINTEXT")
        try:
            return SecurityProtocol(text.upper())
        except ValueError:
            self._note_choice("security.protocol", SecurityProtocol)
            return SecurityProtocol.PLAINTEXT

    def refuse_useless(self, prefix: str, protocol: SecurityProtocol) -> None:
        for name in sorted({*self._texts, *self._secrets}):
            if name.startswith(prefix) and name in SECURITY:
                wanted = "SSL or SASL_SSL" if prefix == "ssl." else "SASL_SSL or SASL_PLAINTEXT"
                self._note(name, f"has no effect with `security.protocol: {protocol}`", f"use {wanted}")

    # -- TLS ------------------------------------------------------------------------------------------------

    def tls(self) -> TlsSettings:
        for kind in ("truststore", "keystore"):
            if self._texts.get(f"ssl.{kind}.type", "PEM").upper() != "PEM":
                self._note(f"ssl.{kind}.type", "only `PEM` can be read", _PEM)
        self._refuse_both(("ssl.truststore.location", "ssl.ca.location", "ssl.truststore.certificates"))
        self._refuse_both(("ssl.keystore.location", "ssl.certificate.location", "ssl.keystore.certificate.chain"))
        self._refuse_half("ssl.keystore.key", "ssl.keystore.certificate.chain")
        self._refuse_half("ssl.certificate.location", "ssl.key.location")
        return TlsSettings(
            trusted_file=self._file("ssl.truststore.location", "ssl.ca.location"),
            trusted_pem=self._pem("ssl.truststore.certificates"),
            own_file=self._file("ssl.keystore.location", "ssl.certificate.location"),
            own_key_file=self._file("ssl.key.location"),
            own_chain_pem=self._pem("ssl.keystore.certificate.chain"),
            own_key_pem=self._secrets.get("ssl.keystore.key"),
            own_key_password=self._secrets.get("ssl.key.password"),
            checks_hostname=self._checks_hostname(),
            versions=self._versions(),
        )

    def _checks_hostname(self) -> bool:
        name = "ssl.endpoint.identification.algorithm"
        text = self._texts.get(name, "https").strip().lower()
        if text not in ("https", "", "none"):
            self._note(name, 'expected `https`, or nothing (`""`), which turns the check off')
        return text == "https"

    def _versions(self) -> tuple[str, ...]:
        name = "ssl.enabled.protocols"
        given = tuple(part.strip() for part in self._texts.get(name, ",".join(_TLS_VERSIONS)).split(","))
        if not set(given) <= set(_TLS_VERSIONS):
            self._note(name, "expected `TLSv1.2`, `TLSv1.3`, or both with a comma between")
            return _TLS_VERSIONS
        return tuple(sorted(set(given)))

    def _file(self, *names: str) -> Path | None:
        for name in names:
            if name in self._texts:
                if Path(self._texts[name]).is_absolute():
                    return Path(self._texts[name])
                self._note(name, "expected an absolute path: tasks run in folders of their own")
        return None

    def _pem(self, name: str) -> str | None:
        text = self._texts.get(name)
        if text is not None and "-----BEGIN CERTIFICATE-----" not in text:
            self._note(name, "expected certificates as PEM text", "-----BEGIN CERTIFICATE----- and so on")
        return text

    # -- SASL -----------------------------------------------------------------------------------------------

    def sasl(self) -> SaslSettings | None:
        name = "sasl.mechanisms" if "sasl.mechanisms" in self._texts else "sasl.mechanism"
        if name not in self._texts:
            self._note(name, "is missing", f"one of {', '.join(SaslMechanism)}")
            return None
        try:
            mechanism = SaslMechanism(self._texts[name].strip().upper())
        except ValueError:
            self._note_choice(name, SaslMechanism)
            return None
        jaas = self._secrets.get(_JAAS)
        self._check_jaas(jaas, mechanism)
        if mechanism is SaslMechanism.OAUTHBEARER:
            self._refuse_unused(("sasl.username", "sasl.password"), mechanism)
            return SaslSettings(mechanism=mechanism, token=self._token(jaas), jaas=jaas)
        unused = [each for each in SECURITY if each.startswith("sasl.oauthbearer.")]
        self._refuse_unused(unused, mechanism)
        username, password = self._texts.get("sasl.username"), self._secrets.get("sasl.password")
        if jaas is not None:
            self._refuse_unused(("sasl.username", "sasl.password"), mechanism, because=f"`{_JAAS}` holds it")
        else:
            for each in ("sasl.username", "sasl.password"):
                if each not in self._given:
                    self._note(each, "is missing", f"set it, or `{_JAAS}`")
        return SaslSettings(mechanism=mechanism, username=username, password=password, jaas=jaas)

    def _token(self, jaas: Secret | None) -> TokenSettings | None:
        url = self._texts.get(_ENDPOINT)
        if url is None:
            self._note(_ENDPOINT, "is missing")
            return None
        parts = urlsplit(url)
        is_file = parts.scheme == "file" and parts.path.startswith("/")
        if not is_file and (parts.scheme not in ("https", "http") or not parts.hostname):
            self._note(_ENDPOINT, "expected https://…, or file:///… of a file that holds a token")
        if parts.username or parts.password:
            self._note(_ENDPOINT, "a secret may not be in the address")
        client_id = next((self._texts[name] for name in _ID if name in self._texts), None)
        client_secret = next((self._secrets[name] for name in _SECRET if name in self._secrets), None)
        if not is_file and jaas is None:
            for names in (_ID, _SECRET):
                if not any(name in self._given for name in names):
                    self._note(names[0], "is missing", f"set it, or `{_JAAS}` with clientId and clientSecret")
        encodes = self._texts.get("sasl.oauthbearer.header.urlencode", "false").lower()
        if encodes not in ("true", "false"):
            self._note("sasl.oauthbearer.header.urlencode", "expected `true` or `false`")
        return TokenSettings(
            endpoint_url=url,
            client_id=client_id,
            client_secret=client_secret,
            scope=self._texts.get("sasl.oauthbearer.scope", ""),
            encodes_credentials=encodes == "true",
        )

    def _check_jaas(self, jaas: Secret | None, mechanism: SaslMechanism) -> None:
        # That of a file may not be there yet, and may change: it is looked at with every login.
        if jaas is None or jaas.is_file:
            return
        try:
            check_login_module(read_login_module(jaas.reveal()), mechanism)
        except ConfigurationError as error:
            self._note(_JAAS, error.message, error.hint)

    # -- problems -------------------------------------------------------------------------------------------

    def _refuse_unused(self, names: Iterable[str], mechanism: SaslMechanism, *, because: str | None = None) -> None:
        for name in names:
            if name in self._given:
                self._note(name, f"has no effect: {because or f'the mechanism is {mechanism}'}", "leave it out")

    def _refuse_both(self, names: tuple[str, ...]) -> None:
        given = [name for name in names if name in self._given]
        for name in given[1:]:
            self._note(name, f"cannot be used with `{given[0]}`", "leave one out")

    def _refuse_half(self, first: str, second: str) -> None:
        for given, missing in ((first, second), (second, first)):
            if given in self._given and missing not in self._given:
                self._note(given, f"needs `{missing}` too")

    def _note_choice(self, name: str, choices: type[SecurityProtocol] | type[SaslMechanism]) -> None:
        self._note(name, f"expected {', '.join(f'`{choice}`' for choice in choices)}")

    def _note(self, name: str, message: str, hint: str = "") -> None:
        self._document.note((*self._path, name), message, hint)
