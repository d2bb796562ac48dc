"""Reads addresses of servers, and those to listen on."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from mirrorlake.config.expansion import ExpandedText
from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.config.reading import found, read_text, refuse

_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%A-Za-z]+\]", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z_]+://")


def read_endpoint(value: object) -> str:
    """Reads an http or https address."""
    endpoint = read_text(value)
    if not re.fullmatch(r"https?://[^/\s@]+(/[^\s]*)?", endpoint) or not _has_host(endpoint):
        refuse(
            f"{found(value)} is not an http or https address",
            "write http:// or https:// before the host, and no credentials",
        )
    return endpoint


def _has_host(endpoint: str) -> bool:
    """Tells whether an address has a host and, if any, a port that there is."""
    try:
        parts = urlsplit(endpoint)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port beyond 65535, and of brackets that are none of an IPv6 address
        return False


def read_servers(default_port: int | None = None) -> Callable[[object], tuple[str, ...]]:
    """Returns a reader of bootstrap servers: ``host:port``, several parted by commas or as a list.

    Where there is a default port, a host alone will do.
    """

    def read(value: object) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        servers = [
            # Of a variable's value nothing may be shown, not even a part of it.
            _server(part, item if isinstance(item, ExpandedText) else part, default_port)
            for item in items
            for part in _parts(item, is_list=isinstance(value, list))
            if part
        ]
        if not servers:
            refuse("names no server", "write host:port")
        return tuple(dict.fromkeys(servers))

    return read


def _parts(item: object, *, is_list: bool) -> list[str]:
    text = read_text(item)
    return [part.strip() for part in ([text] if is_list else text.split(","))]


def _server(text: str, shown: object, default_port: int | None) -> str:
    scheme = _SCHEME.match(text)
    if scheme and scheme[0].upper() != "PLAINTEXT://":
        refuse(f"{found(shown)} has a scheme", "write host:port; how to connect is said by security.protocol")
    host, colon, port = text[scheme.end() if scheme else 0 :].rpartition(":")
    if (not colon or port.endswith("]")) and default_port is not None:
        host, port = text[scheme.end() if scheme else 0 :], str(default_port)
    if not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        refuse(f"{found(shown)} is not host:port", "write host:port; several are separated by commas")
    return f"{host.lower()}:{int(port)}"


def read_listen(value: object) -> ListenAddress | None:
    """Reads an address to listen on, or ``off``."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 65535:
        refuse(f"expected host:port or off, found {found(value)}", f"for example 127.0.0.1:{value}")
    text = read_text(value)
    if text == "off":
        return None
    host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit()
    if is_number and int(port) > 65535:
        refuse(f"{found(value)}: the port is above 65535", "for example 127.0.0.1:9090")
    if not host and is_number:
        refuse(f"{found(value)} has no host", f"127.0.0.1:{port} for this machine alone, 0.0.0.0:{port} for all")
    if not _HOST.fullmatch(host) or not is_number:
        refuse(f"expected host:port or off, found {found(value)}", "for example 127.0.0.1:9090")
    return ListenAddress(host=host.strip("[]"), port=int(port))
