"""SASL on a connection: which mechanism, with what credentials, and what it means when the broker says no.

Sources: KIP-43 and KIP-152 (SaslHandshake 1, SaslAuthenticate), KIP-368 (session lifetime, SaslAuthenticate 1),
KIP-255 and RFC 7628 (OAUTHBEARER), RFC 4616 (PLAIN), RFC 5802 (SCRAM).
"""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from mirrorlake.errors import (
    AuthenticationFailedError,
    BrokerUnreachableError,
    MirrorlakeError,
    NotKafkaError,
    UnsupportedError,
)
from mirrorlake.jaas import check_login_module, extensions_of, read_login_module
from mirrorlake.kafka.security.scram import ScramExchange, ScramRefusedError
from mirrorlake.kafka.security.tokens import Token, TokenCache
from mirrorlake.kafka.wire.apis import Api
from mirrorlake.kafka.wire.error_codes import ERROR_NAMES
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.secret import Secret
from mirrorlake.security import ClientSecurity, SaslMechanism, SaslSettings, TokenSettings

Exchange = Callable[[Api, int, Sequence[bytes]], Awaitable[Frame]]
"""Sends a request of an API and version with a body and returns the answer."""

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
"""Carries the session lifetime; known since Kafka 2.2."""
_ROUNDS_MAX: Final = 4
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_tokens = TokenCache()


class _Mechanism(Protocol):
    def first(self) -> bytes: ...

    def respond(self, challenge: bytes) -> bytes | None: ...


class _Plain:
    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:  # noqa: ARG002  there is none
        return None


class _Bearer:
    """OAUTHBEARER (RFC 7628): a refusal comes as a challenge, and wants one more answer before it becomes an error."""

    def __init__(self, token: str, extensions: dict[str, str]) -> None:
        extra = "".join(f"\x01{name}={value}" for name, value in extensions.items())
        self._message = f"n,,\x01auth=Bearer {token}{extra}\x01\x01".encode()
        self.refusal = ""

    def first(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        if not challenge:
            return None
        try:
            status = json.loads(challenge).get("status", "")
        except (ValueError, AttributeError):
            status = ""
        self.refusal = str(status)[:80]
        return b"\x01"


async def authenticate(
    exchange: Exchange, security: ClientSecurity, *, cluster: str, address: str, timeout_seconds: float
) -> float | None:
    """Proves to a broker who we are; the connection can be used, or used on, when this returns.

    Returns:
        For how many seconds from now on; None where the broker sets no limit.

    Raises:
        AuthenticationFailedError: the broker, or the token endpoint, refuses the credentials or the mechanism.
        UnsupportedError: the listener does not want SASL.
        TokenUnavailableError: no token could be had.
        ConfigurationError: a file of the credentials cannot be read.
        BrokerUnreachableError: closed meanwhile.
    """
    sasl = security.sasl
    assert sasl is not None
    login = _Login(security, sasl, cluster, address, timeout_seconds)
    mechanism = await login.mechanism()
    with await exchange(Api.SASL_HANDSHAKE, HANDSHAKE_VERSION, (_string(sasl.mechanism.value),)) as frame:
        code, enabled = _decode_handshake(frame.view, login)
    if code:
        raise login.mechanism_refused(code, enabled)
    message = mechanism.first()
    for _ in range(_ROUNDS_MAX):
        try:
            with await exchange(Api.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, (_bytes(message),)) as frame:
                code, said, challenge, lifetime_ms = _decode_authenticate(frame.view, login)
        except BrokerUnreachableError as error:
            raise login.cut(error) from error
        if code:
            raise login.credentials_refused(code, said, mechanism)
        try:
            answer = mechanism.respond(challenge)
        except ScramRefusedError as error:
            raise login.failed(str(error)) from None
        if answer is None:
            return lifetime_ms / 1000 if lifetime_ms > 0 else None
        message = answer
    raise login.failed("the exchange did not come to an end")


class _Login:
    """One authentication: its credentials, and the errors it can end with."""

    def __init__(
        self, security: ClientSecurity, sasl: SaslSettings, cluster: str, address: str, timeout_seconds: float
    ) -> None:
        self._security = security
        self._sasl = sasl
        self._cluster = cluster
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._used: tuple[TokenSettings, Token] | None = None

    async def mechanism(self) -> _Mechanism:
        """Returns the mechanism with the credentials as they are now: files may have changed."""
        sasl = self._sasl
        options: dict[str, str] = {}
        extensions: dict[str, str] = {}
        if sasl.jaas is not None:
            module = read_login_module(sasl.jaas.reveal())
            check_login_module(module, sasl.mechanism)
            options, extensions = dict(module.options), extensions_of(module)
        if sasl.mechanism is SaslMechanism.OAUTHBEARER:
            return _Bearer(await self._token(options), extensions)
        username = options.get("username", sasl.username or "")
        password = options.get("password") if sasl.password is None else sasl.password.reveal()
        if sasl.mechanism is SaslMechanism.PLAIN:
            return _Plain(username, password or "")
        return ScramExchange(sasl.mechanism.value, username, password or "")

    async def _token(self, options: dict[str, str]) -> str:
        settings = self._sasl.token
        assert settings is not None
        if "clientId" in options:
            settings = replace(settings, client_id=options["clientId"])
        if "clientSecret" in options:
            settings = replace(settings, client_secret=Secret(options["clientSecret"]))
        if "scope" in options:
            settings = replace(settings, scope=options["scope"])
        token = _tokens.fresh(settings)
        if token is None:
            token = await asyncio.to_thread(
                _tokens.obtain,
                settings,
                cluster=self._cluster,
                tls=self._security.tls,
                timeout_seconds=self._timeout_seconds,
            )
        self._used = (settings, token)
        return token.text

    def mechanism_refused(self, code: int, enabled: Sequence[str]) -> MirrorlakeError:
        """Returns the error for an answer to SaslHandshake."""
        mechanism = self._sasl.mechanism.value
        if code == _UNSUPPORTED_MECHANISM:
            return AuthenticationFailedError(
                f"{self._where} does not take SASL mechanism {mechanism}; enabled are: {', '.join(enabled) or 'none'}",
                hint="set sasl.mechanism to one of these, or enable it: sasl.enabled.mechanisms of the broker",
                **self._facts,
            )
        if code == _ILLEGAL_STATE:
            protocol = "SSL" if self._security.protocol.is_encrypted else "PLAINTEXT"
            return UnsupportedError(
                f"{self._where} is a listener without SASL, and security.protocol is {self._security.protocol}",
                hint=f"use security.protocol {protocol}, or the port of the broker's SASL listener",
                **self._facts,
            )
        return self.failed(f"SaslHandshake was answered with {_name(code)}")

    def credentials_refused(self, code: int, said: str, mechanism: _Mechanism) -> MirrorlakeError:
        """Returns the error for an answer to SaslAuthenticate; a refused token is not used again."""
        if self._used is not None:
            _tokens.forget(*self._used)
        reason = f"{_name(code)}{f': {said}' if said else ''}"
        refusal = mechanism.refusal if isinstance(mechanism, _Bearer) else ""
        return self.failed(f"{reason}{f' (token: {refusal})' if refusal and refusal not in reason else ''}")

    def failed(self, reason: str) -> AuthenticationFailedError:
        """Returns the error for credentials that do not fit."""
        if self._sasl.mechanism is SaslMechanism.OAUTHBEARER:
            hint = (
                "the token is not one this broker takes: compare issuer, audience, scope and expiry with its "
                "sasl.oauthbearer.* settings, and the clocks"
            )
        else:
            hint = (
                f"check username and password in the cluster's properties; a {self._sasl.mechanism} user must exist "
                "on this cluster"
            )
        return AuthenticationFailedError(
            f"{self._where} refuses the {self._sasl.mechanism} login: {reason}", hint=hint, **self._facts
        )

    def cut(self, error: BrokerUnreachableError) -> BrokerUnreachableError:
        """Returns the error for a connection that was closed instead of an answer."""
        return BrokerUnreachableError(
            f"{self._where} closed the connection in the {self._sasl.mechanism} login: {error.message}",
            hint="the broker's log says why; it may be stopping, or its callback handler failed",
            **self._facts,
        )

    def garbled(self) -> NotKafkaError:
        """Returns the error for an answer that cannot be read."""
        return NotKafkaError(f"{self._where} sent an answer to SASL requests that is not Kafka's", **self._facts)

    @property
    def _where(self) -> str:
        return f"{self._address} of cluster {self._cluster!r}"

    @property
    def _facts(self) -> dict[str, str]:
        return {"cluster": self._cluster, "address": self._address}


def _decode_handshake(view: memoryview, login: _Login) -> tuple[int, list[str]]:
    try:
        (code,) = _INT16.unpack_from(view)
        (count,) = _INT32.unpack_from(view, 2)
        at, names = 6, []
        for _ in range(count):
            text, at = _read_string(view, at)
            names.append(text)
    except (struct.error, UnicodeDecodeError, IndexError):
        raise login.garbled() from None
    return code, names


def _decode_authenticate(view: memoryview, login: _Login) -> tuple[int, str, bytes, int]:
    try:
        (code,) = _INT16.unpack_from(view)
        said, at = _read_string(view, 2)
        (size,) = _INT32.unpack_from(view, at)
        end = at + 4 + max(0, size)
        challenge = bytes(view[at + 4 : end])
        (lifetime_ms,) = _INT64.unpack_from(view, end)
    except (struct.error, UnicodeDecodeError):
        raise login.garbled() from None
    return code, said, challenge, lifetime_ms


def _read_string(view: memoryview, at: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(view, at)
    end = at + 2 + max(0, size)
    return str(view[at + 2 : end], "utf-8"), end


def _string(text: str) -> bytes:
    return _INT16.pack(len(text.encode())) + text.encode()


def _bytes(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content


def _name(code: int) -> str:
    return ERROR_NAMES.get(code, f"error {code}")
