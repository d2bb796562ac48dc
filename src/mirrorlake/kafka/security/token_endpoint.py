"""Asks an OAuth 2.0 token endpoint for a token by the client credentials grant (RFC 6749 §4.4), or reads a file."""

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final

from mirrorlake.errors import AuthenticationFailedError, ConfigurationError, TokenUnavailableError
from mirrorlake.kafka.security.tls_context import load_trusted
from mirrorlake.kafka.security.tokens import Token
from mirrorlake.security import TlsSettings, TokenSettings

_ANSWER_BYTES_MAX: Final = 1 << 20
_LIFE_SECONDS_DEFAULT: Final = 300.0
"""Of a token that says nothing about its end."""


def request_token(settings: TokenSettings, *, cluster: str, tls: TlsSettings, timeout_seconds: float) -> Token:
    """Asks for a token; see `TokenCache.obtain` for what can go wrong."""
    received = time.time()
    if settings.endpoint_url.startswith("file:"):
        text = _read_file(settings.endpoint_url, cluster)
        return Token(text=text, received=received, expires=_expiry_of(text) or received + _LIFE_SECONDS_DEFAULT)
    answer = _ask(settings, cluster=cluster, tls=tls, timeout_seconds=timeout_seconds)
    access = answer.get("access_token")
    if not isinstance(access, str) or not access or not access.isascii() or not access.isprintable():
        raise _unavailable(settings, cluster, "its answer holds no access_token")
    stated = answer.get("expires_in")
    life = float(stated) if isinstance(stated, int | float) and stated > 0 else _LIFE_SECONDS_DEFAULT
    return Token(text=access, received=received, expires=_expiry_of(access) or received + life)


def _ask(settings: TokenSettings, *, cluster: str, tls: TlsSettings, timeout_seconds: float) -> dict[str, object]:
    form = {"grant_type": "client_credentials"}
    if settings.scope:
        form["scope"] = settings.scope
    request = urllib.request.Request(
        settings.endpoint_url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": _basic(settings), "Accept": "application/json"},
        method="POST",
    )
    context = ssl.create_default_context()
    if tls.trusted_file is not None or tls.trusted_pem is not None:
        load_trusted(context, cluster, tls)
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=timeout_seconds) as response:
            content = response.read(_ANSWER_BYTES_MAX)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(settings, cluster, error.code, error.read(_ANSWER_BYTES_MAX)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise _unavailable(settings, cluster, str(reason)) from None
    answer = _json(content)
    if answer is None:
        raise _unavailable(settings, cluster, "its answer is not JSON")
    return answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the next address would be given the client's secret."""

    def redirect_request(self, *_: object) -> None:
        """Returns no further request."""


def _basic(settings: TokenSettings) -> str:
    user = settings.client_id or ""
    password = settings.client_secret.reveal() if settings.client_secret is not None else ""
    if settings.encodes_credentials:
        user, password = urllib.parse.quote_plus(user), urllib.parse.quote_plus(password)
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _read_file(url: str, cluster: str) -> str:
    path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise ConfigurationError(
            f"the token file {path} of cluster {cluster!r} cannot be read: {reason}", cluster=cluster
        ) from None


def _expiry_of(token: str) -> float | None:
    """Returns the ``exp`` claim of a JWT (RFC 7519 §4.1.4); None for tokens that show nothing."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    expires = claims.get("exp") if claims is not None else None
    return float(expires) if isinstance(expires, int | float) else None


def _json(content: bytes) -> dict[str, object] | None:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):  # the latter of lists in lists
        return None
    return read if isinstance(read, dict) else None


def _refused(
    settings: TokenSettings, cluster: str, status: int, content: bytes
) -> TokenUnavailableError | AuthenticationFailedError:
    # Of the answer only the error code is repeated (RFC 6749 §5.2): the rest may repeat what was sent.
    code = (_json(content) or {}).get("error")
    said = f" ({code})" if isinstance(code, str) and code.isascii() and code.isprintable() and len(code) < 80 else ""
    if status in (408, 425, 429) or status >= 500:
        return _unavailable(settings, cluster, f"it answered {status}{said}")
    return AuthenticationFailedError(
        f"the token endpoint {_shown(settings)} of cluster {cluster!r} answered {status}{said}",
        hint="check client id, client secret and sasl.oauthbearer.scope; it must grant client_credentials"
        if status < 300 or status >= 400
        else "it sends elsewhere, which is not followed: set sasl.oauthbearer.token.endpoint.url to the final address",
        cluster=cluster,
        status=status,
    )


def _unavailable(settings: TokenSettings, cluster: str, reason: str) -> TokenUnavailableError:
    return TokenUnavailableError(
        f"the token endpoint {_shown(settings)} of cluster {cluster!r} gave no token: {reason}",
        hint="check sasl.oauthbearer.token.endpoint.url and that it can be reached from here",
        cluster=cluster,
    )


def _shown(settings: TokenSettings) -> str:
    """Returns the address without user and query, where somebody may have put a secret."""
    parts = urllib.parse.urlsplit(settings.endpoint_url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
