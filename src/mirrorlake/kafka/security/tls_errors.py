"""What a failed TLS handshake means, and what to do about it."""

import ssl
from typing import Final

from mirrorlake.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    MirrorlakeError,
    NotKafkaError,
    UnsupportedError,
    UntrustedBrokerError,
)

# X509_V_ERR_… of OpenSSL's x509_vfy.h.
_EXPIRED: Final = frozenset({9, 10, 11, 12})
_NAME_MISMATCH: Final = frozenset({62, 64})
_UNKNOWN_ISSUER: Final = frozenset({2, 18, 19, 20, 21})

_OUR_CERTIFICATE: Final = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
    "ALERT_NO_CERTIFICATE",
    "ALERT_DECRYPT_ERROR",
)
_NOT_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
)
_NOTHING_IN_COMMON: Final = (
    "PROTOCOL_VERSION",
    "HANDSHAKE_FAILURE",
    "UNSUPPORTED_PROTOCOL",
    "INSUFFICIENT_SECURITY",
    "NO_PROTOCOLS_AVAILABLE",
)


def tls_error(error: ssl.SSLError, *, cluster: str, address: str) -> MirrorlakeError:
    """Returns the error for what OpenSSL says, in the handshake or (client certificates, TLS 1.3) right after it."""
    where = f"{address} of cluster {cluster!r}"
    facts = {"cluster": cluster, "address": address}
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message.rstrip(".")
        return UntrustedBrokerError(
            f"the certificate of {where} is not trusted: {said}",
            hint=_distrust_hint(error.verify_code),
            **facts,
        )
    reason = (error.reason or "").upper()
    if any(each in reason for each in _OUR_CERTIFICATE):
        return AuthenticationFailedError(
            f"{where} refuses the client's certificate, or requires one and got none ({_readable(reason)})",
            hint="set ssl.keystore.location (PEM, key and certificate chain) to a certificate whose issuer is in the "
            "broker's ssl.truststore and that has not expired",
            **facts,
        )
    if any(each in reason for each in _NOT_TLS):
        return NotKafkaError(
            f"{where} does not speak TLS ({_readable(reason)})",
            hint="check host and port; a listener without TLS needs security.protocol PLAINTEXT or SASL_PLAINTEXT",
            **facts,
        )
    if any(each in reason for each in _NOTHING_IN_COMMON):
        return UnsupportedError(
            f"{where} and this client have no TLS version or cipher in common ({_readable(reason)})",
            hint="TLS 1.2 and 1.3 are spoken: compare ssl.enabled.protocols and ssl.cipher.suites of the listener; "
            "a listener that requires a client certificate may answer so too: see ssl.keystore.location",
            **facts,
        )
    return BrokerUnreachableError(f"TLS connection to {where} lost: {_readable(reason) or error}", hint="", **facts)


def handshake_cut(*, cluster: str, address: str) -> BrokerUnreachableError:
    """Returns the error for a peer that closed in the handshake without a word."""
    return BrokerUnreachableError(
        f"{address} of cluster {cluster!r} closed the connection in the TLS handshake, as a stopping broker or a "
        "listener without TLS does",
        hint="compare security.protocol with the broker's listeners: without TLS it is PLAINTEXT or SASL_PLAINTEXT",
        cluster=cluster,
        address=address,
    )


def _distrust_hint(code: int) -> str:
    if code in _NAME_MISMATCH:
        return (
            "use the name the certificate was made for (in bootstrap-servers, and in the broker's "
            "advertised.listeners), or have a certificate made with this name as subjectAltName"
        )
    if code in _EXPIRED:
        return "renew the broker's certificate, or set this machine's clock"
    if code in _UNKNOWN_ISSUER:
        return "set ssl.truststore.location to a PEM file with the certificate of the authority that issued it"
    return "ask the broker's administrators about its certificate"


def _readable(reason: str) -> str:
    return reason.lower().replace("_", " ")
