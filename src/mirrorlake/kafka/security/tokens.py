"""OAUTHBEARER tokens of one process: kept until four fifths of their life are over."""

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from mirrorlake.errors import TokenUnavailableError
from mirrorlake.security import TlsSettings, TokenSettings

REFRESH_FACTOR: Final = 0.8
"""Of a token's life, as ``sasl.login.refresh.window.factor`` of Kafka's client."""
LEFT_SECONDS_MIN: Final = 2.0
"""Of a token that is shown: the session it opens ends with it, and brokers take one login per second and connection."""
_TOKENS_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and its times, in seconds since the epoch."""

    text: str = field(repr=False)
    received: float
    expires: float

    @property
    def refresh_after(self) -> float:
        """When the next one should be asked for."""
        return min(self.received + REFRESH_FACTOR * (self.expires - self.received), self.expires - LEFT_SECONDS_MIN)


class TokenCache:
    """The tokens of one process, shared by all its connections. Thread-safe."""

    def __init__(self) -> None:
        self._tokens: dict[TokenSettings, Token] = {}
        self._locks: dict[TokenSettings, threading.Lock] = {}
        self._lock = threading.Lock()

    def fresh(self, settings: TokenSettings) -> Token | None:
        """Returns a token that need not be refreshed, without waiting; None where there is none."""
        token = self._tokens.get(settings)
        return token if token is not None and time.time() < token.refresh_after else None

    def forget(self, settings: TokenSettings, token: Token) -> None:
        """Drops a token that a broker refused, unless it was replaced meanwhile."""
        if self._tokens.get(settings) is token:
            self._tokens.pop(settings, None)

    def obtain(self, settings: TokenSettings, *, cluster: str, tls: TlsSettings, timeout_seconds: float) -> Token:
        """Returns a token, asking for one where none is fresh; blocks. Who asks meanwhile shares the answer.

        A token that still lives is used on when no newer one can be had.

        Raises:
            TokenUnavailableError: the endpoint does not answer, or says to come back later.
            AuthenticationFailedError: it refuses the client's id, secret or scope.
            ConfigurationError: a file cannot be read.
        """
        with self._lock:
            while len(self._locks) >= _TOKENS_MAX:
                oldest = next(iter(self._locks))
                del self._locks[oldest]
                self._tokens.pop(oldest, None)
            lock = self._locks.setdefault(settings, threading.Lock())
        with lock:
            known = self.fresh(settings)
            if known is not None:
                return known
            try:
                # Imported when needed: an HTTP client takes a while to load, and most clusters have no use for it.
                from mirrorlake.kafka.security.token_endpoint import request_token

                token = request_token(settings, cluster=cluster, tls=tls, timeout_seconds=timeout_seconds)
            except TokenUnavailableError:
                old = self._tokens.get(settings)
                if old is None or time.time() >= old.expires:
                    raise
                return old
            self._tokens[settings] = token
            return token
