"""The client's side of SCRAM (RFC 5802), without I/O, as Kafka's brokers take it.

Kafka normalizes no names or passwords (``ScramFormatter.normalize`` is plain UTF-8), so neither is done here.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

ITERATIONS_MIN: Final = 4096
"""Fewer make a stolen exchange cheap to guess; RFC 7677 and Kafka's client ask for as many."""
ITERATIONS_MAX: Final = 1_000_000
"""More would let a false broker keep this process busy."""

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_NO_CHANNEL_BINDING: Final = "n,,"


class ScramRefusedError(Exception):
    """The other side does not follow the protocol, or does not know the password. Holds nothing secret."""


class ScramExchange:
    """One exchange: `first`, then `respond` to the server's two messages.

    Args:
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        username: who.
        password: never sent.
        nonce: fresh randomness; to be set in tests only.
    """

    def __init__(self, mechanism: str, username: str, password: str, *, nonce: str | None = None) -> None:
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Returns the first message."""
        return f"{_NO_CHANNEL_BINDING}{self._first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Returns the answer to a server's message; None after the last, when both sides have proven themselves.

        Raises:
            ScramRefusedError: the server did not, or broke the protocol.
        """
        try:
            text = challenge.decode()
            fields = dict(part.split("=", 1) for part in text.split(","))
        except ValueError:
            raise ScramRefusedError("a message that is not SCRAM's") from None
        if "e" in fields:
            raise ScramRefusedError(f"refused: {fields['e'][:80]}")
        if self._server_signature is None:
            return self._prove(text, fields)
        if not hmac.compare_digest(_decoded(fields, "v"), self._server_signature):
            raise ScramRefusedError("the broker does not know the password either: it may not be the one meant")
        return None

    def _prove(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramRefusedError("the server's nonce does not continue ours")
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramRefusedError(f"iterations are not from {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _decoded(fields, "s"), int(iterations))
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, self._hmac(stored_key, signed), strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields[name], validate=True)
    except (KeyError, ValueError):
        raise ScramRefusedError(f"field {name} is missing or not base64") from None
