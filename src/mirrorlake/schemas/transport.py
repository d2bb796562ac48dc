"""Requests to one schema registry: who asks, which of its addresses, how often, and what an answer means.

Source: Confluent's Schema Registry API reference, "Errors" and "Content types"; RFC 9110 §10.2.3 (Retry-After).
"""

import asyncio
import json
import random
import re
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import httpx

from mirrorlake.errors import (
    AuthenticationFailedError,
    ConfigurationError,
    MirrorlakeError,
    NotRegistryError,
    PermissionDeniedError,
    RegistryRefusedError,
    RegistryUnavailableError,
    UntrustedBrokerError,
)
from mirrorlake.schemas.settings import RegistrySettings

# httpx's transport asks for sniffio several times a request, which anyio brings no longer. An import that fails is
# remembered by nobody, and looks through every folder of the path: a third of a request's CPU time. This remembers it.
if "sniffio" not in sys.modules and find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

Json = object
"""What an answer holds: null, true or false, a number, text, or lists and mappings of them."""

_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ROUNDS_MAX: Final = 5
"""Each asks every address once, until one answers."""
_WAIT_SECONDS_FIRST, _WAIT_SECONDS_MAX = 0.2, 5.0
_TIMEOUT = httpx.Timeout(10.0, connect=5.0, pool=None)
_REQUESTS_AT_ONCE: Final = 8
"""And so many connections. Others wait here: the library's own queue is gone through as a whole for each request, and
thousands of subjects are asked about at once."""
_NOT_DONE_YET: Final = frozenset({425, 429})
"""What a server answers instead of doing it: it would have it sent again later."""
_NO_TIME: Final = 408
"""A server, or a proxy before it, has not waited for the whole request, or for the next one on a connection."""
_TOKEN = re.compile(r"[!-~]([ -~]*[!-~])?")
"""What can be sent in a header; RFC 6750 allows fewer characters still."""
_SAID_MAX: Final = 300
ABSENT_CODES: Final = frozenset({40401, 40402, 40403, 40404, 40406, 40408, 40409})
"""Of subjects, versions and schemas that are not there or soft-deleted, and of levels and modes nobody has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAnswer:
    """What a registry said. ``code`` is its own error code, the HTTP status where it gives none, 0 for success."""

    status: int
    code: int
    body: Json
    url: str

    @property
    def is_absent(self) -> bool:
        """Tells whether the registry says that what was asked for is not there: it, and not some server before it."""
        return self.code in ABSENT_CODES


class RegistryTransport:
    """Sends requests to one registry; to be closed. For one event loop.

    Args:
        settings: where it is and who asks.
        sleep: waits between rounds.
    """

    def __init__(
        self, settings: RegistrySettings, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self.settings = settings
        self._sleep = sleep
        self._urls = [url.rstrip("/") for url in settings.urls]
        self._client: httpx.AsyncClient | None = None
        self._slots = asyncio.Semaphore(_REQUESTS_AT_ONCE)
        self.calls = 0

    async def close(self) -> None:
        """Closes its connections. Idempotent."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def ask(
        self,
        method: str,
        path: str,
        *,
        about: str,
        query: Mapping[str, str] | None = None,
        body: Json = None,
        changes: bool = True,
    ) -> RegistryAnswer:
        """Returns the answer to a request, also where it says that something is absent.

        A request that reads is sent again, to every address, while none answers; one that changes something only where
        it surely was not done. So a change is done once at most for each call.

        Args:
            method: of HTTP.
            path: below the address, already quoted.
            about: what it is about, for messages: ``subject orders-value version 3``.
            query: parameters.
            body: sent as JSON; None for nothing.
            changes: whether it may change something; a GET never does.

        Raises:
            RegistryUnavailableError: no address answers, or none can now. A change may have been done.
            RegistryRefusedError: it refuses the request.
            AuthenticationFailedError: it does not believe who we are.
            PermissionDeniedError: this user may not do that.
            UntrustedBrokerError: its certificate is not one to trust.
            NotRegistryError: what answers is no registry.
            ConfigurationError: a file of a certificate or secret cannot be read.
        """
        wait = _WAIT_SECONDS_FIRST
        last: RegistryUnavailableError | None = None
        for round_ in range(_ROUNDS_MAX):
            if round_:
                await self._sleep(max(_patience_of(last), wait * random.uniform(0.5, 1.0)))
                wait = min(2 * wait, _WAIT_SECONDS_MAX)
            for url in list(self._urls):
                try:
                    answer = await self._ask_one(url, method, path, about, query, body)
                except RegistryUnavailableError as error:
                    if changes and method != "GET" and not error.facts.get("surely_not_done"):
                        raise
                    last = error
                    continue
                self._prefer(url)
                return answer
        assert last is not None
        raise last

    def _prefer(self, url: str) -> None:
        if self._urls[0] != url:
            self._urls = [url, *(other for other in self._urls if other != url)]

    async def _ask_one(
        self, url: str, method: str, path: str, about: str, query: Mapping[str, str] | None, body: Json
    ) -> RegistryAnswer:
        client = self._opened()
        content = None if body is None else json.dumps(body).encode()
        self.calls += 1
        try:
            async with self._slots:
                response = await client.request(
                    method, url + path, params=query, content=content, headers=self._credentials()
                )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise self._unreached(url, about, error) from None
        except httpx.HTTPError as error:
            raise self._unavailable(url, about, _words_of(error), is_done_unknown=True) from None
        except OSError as error:  # of TLS after the handshake, where TLS 1.3 refuses a client
            raise self._broken(url, about, error) from None
        return self._judged(response, url, about)

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=self._tls(),
                timeout=_TIMEOUT,
                follow_redirects=False,
                headers={"Accept": f"{_MEDIA_TYPE}, application/json", "Content-Type": _MEDIA_TYPE},
                limits=httpx.Limits(max_connections=_REQUESTS_AT_ONCE),
            )
        return self._client

    def _credentials(self) -> dict[str, str]:
        """Returns what proves who we are; read anew for each request, as files may have changed."""
        settings = self.settings
        if settings.token is not None:
            token = settings.token.reveal()
            # The library's own errors would show it.
            if not _TOKEN.fullmatch(token):
                raise ConfigurationError(
                    f"the token of registry {settings.name} cannot be sent: it is empty, or has a line break, another "
                    "control character, a space at an end, or a character beyond ASCII",
                    hint="let its file or variable hold the token alone",
                )
            return {"Authorization": f"Bearer {token}"}
        if settings.username is None or settings.password is None:
            return {}
        request = httpx.Request("GET", settings.urls[0])
        flow = httpx.BasicAuth(settings.username, settings.password.reveal()).sync_auth_flow(request)
        return {"Authorization": next(flow).headers["Authorization"]}

    def _tls(self) -> ssl.SSLContext:
        settings = self.settings
        if not any(url.startswith("https:") for url in settings.urls):
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing to trust: reading the system's takes its time
        context = ssl.create_default_context()
        try:
            if settings.ca_file is not None:
                context.load_verify_locations(settings.ca_file)
        except OSError as error:
            raise self._unread("ca-file", str(settings.ca_file), error) from None
        try:
            if settings.certificate is not None:
                # Without a password an encrypted key would be asked for at the terminal.
                context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")
        except OSError as error:
            files = f"{settings.certificate} and {settings.key or settings.certificate}"
            raise self._unread("certificate and key", files, error) from None
        return context

    def _unread(self, what: str, files: str, error: OSError) -> MirrorlakeError:
        reason = error.strerror if error.strerror and not isinstance(error, ssl.SSLError) else "no such thing in PEM"
        return ConfigurationError(
            f"{what} of registry {self.settings.name} cannot be used: {files}: {reason}",
            hint="give unencrypted files in PEM that this user can read",
        )

    def _judged(self, response: httpx.Response, url: str, about: str) -> RegistryAnswer:
        status, body = response.status_code, _body_of(response)
        if response.is_success:
            if body is None:
                raise self._no_registry(url, f"status {status} without JSON")
            return RegistryAnswer(status=status, code=0, body=body, url=url)
        code, said = _error_of(status, body)
        facts = self._facts(url, status)
        where = f"registry {self.settings.name} ({url})"
        if status == _NO_TIME or status in _NOT_DONE_YET or status >= 500:
            raise self._unavailable(
                url,
                about,
                f"status {status}{said}",
                is_done_unknown=status not in _NOT_DONE_YET,
                wait_seconds=_retry_after(response),
            )
        if status == 401:
            message = f"{where} does not believe who we are{said}"
            raise AuthenticationFailedError(message, hint="check username and password, or token", **facts)
        if status == 403:
            message = f"{where} does not let this user ask about {about}{said}"
            raise PermissionDeniedError(message, hint="give this user the right, or name another one", **facts)
        if status == 404 or (status == 405 and body is None):
            return RegistryAnswer(status=status, code=code, body=body, url=url)
        if response.is_redirect:
            raise self._no_registry(url, f"a redirection to {response.headers.get('location', 'nowhere')[:100]}")
        message = f"{where} refuses what it was told of {about}: status {status}{said}"
        raise RegistryRefusedError(message, hint=_hint_for(code), error_code=code, **facts)

    def _facts(self, url: str, status: int) -> dict[str, str | int]:
        return {"registry": self.settings.name, "url": url, "status": status}

    def _no_registry(self, url: str, what: str) -> NotRegistryError:
        return NotRegistryError(
            f"what answers for registry {self.settings.name} at {url} is no schema registry: {what}",
            hint="give the address below which `/subjects` lies",
            registry=self.settings.name,
            url=url,
        )

    def not_understood(self, answer: RegistryAnswer, about: str) -> NotRegistryError:
        """Returns the error for an answer that is not what the API says, such as a 404 of another server."""
        return self._no_registry(answer.url, f"status {answer.status} for {about}, and not in the API's words")

    def _unreached(self, url: str, about: str, error: httpx.HTTPError) -> MirrorlakeError:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return UntrustedBrokerError(
                    f"the certificate of registry {self.settings.name} at {url} is not trusted: {cause.verify_message}",
                    hint="let `ca-file` name its authority, and check the host's name",
                    registry=self.settings.name,
                    url=url,
                )
            cause = cause.__cause__ or cause.__context__
        return self._unavailable(url, about, _words_of(error), is_done_unknown=False)

    def _broken(self, url: str, about: str, error: OSError) -> MirrorlakeError:
        reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
        if isinstance(error, ssl.SSLError) and "CERT" in reason:
            return AuthenticationFailedError(
                f"registry {self.settings.name} at {url} does not take this client's certificate: {reason}",
                hint="give `certificate` and `key` of an authority that it trusts",
                registry=self.settings.name,
                url=url,
            )
        return self._unavailable(url, about, reason, is_done_unknown=True)

    def _unavailable(
        self, url: str, about: str, what: str, *, is_done_unknown: bool, wait_seconds: float = 0.0
    ) -> RegistryUnavailableError:
        return RegistryUnavailableError(
            f"registry {self.settings.name} ({url}) does not answer about {about}: {what}",
            hint="it is asked again; if this stays so, look at the registry",
            registry=self.settings.name,
            url=url,
            surely_not_done=int(not is_done_unknown),
            wait_seconds=wait_seconds,
        )


def _words_of(error: httpx.HTTPError) -> str:
    return "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error) or type(error).__name__


def _patience_of(error: RegistryUnavailableError | None) -> float:
    wanted = 0.0 if error is None else error.facts.get("wait_seconds")
    return float(wanted or 0.0)


def _retry_after(response: httpx.Response) -> float:
    """Returns the seconds a server asks to wait, bounded; 0 where it asks for none, or names a date."""
    text = response.headers.get("retry-after", "")
    return min(float(text), 6 * _WAIT_SECONDS_MAX) if text.isascii() and text.isdigit() else 0.0


def _body_of(response: httpx.Response) -> Json:
    try:
        body: Json = response.json()
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError; the other is of lists in lists
        return None
    return body


def _error_of(status: int, body: Json) -> tuple[int, str]:
    """Returns the registry's own code and words of an error; the status and nothing where it has none."""
    if not isinstance(body, dict):
        return status, ""
    code, said = body.get("error_code"), body.get("message")
    shown = f": {said[:_SAID_MAX]}" if isinstance(said, str) and said else ""
    return (code if isinstance(code, int) and code else status), shown


def _hint_for(code: int) -> str:
    match code:
        case 409 | 40901:
            return "the schema is not compatible with earlier ones at the level that holds there"
        case 42201:
            return "the registry cannot read the schema; is its format switched on there?"
        case 42205:
            return "the subject's mode, or the registry's, does not allow it"
        case 42206:
            return "other schemas refer to it"
    return "look at the registry's log"
