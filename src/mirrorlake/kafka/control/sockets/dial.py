"""TCP connections without blocking the event loop, with all reasons named when none comes about."""

import asyncio
import os
import socket

from mirrorlake.errors import BrokerUnreachableError
from mirrorlake.kafka.wire.settings import format_server

_Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]


async def dial(host: str, port: int, *, timeout_seconds: float) -> socket.socket:
    """Returns a connected non-blocking socket with TCP_NODELAY.

    The addresses of the host are tried one after the other.

    Args:
        host: a name, or an IPv4 or IPv6 address.
        port: 1–65535.
        timeout_seconds: for look-up and all attempts together.

    Raises:
        BrokerUnreachableError: no address, no connection, or none in time; names each address and its reason.
    """
    peer = format_server(host, port)
    reasons: list[str] = []
    try:
        async with asyncio.timeout(timeout_seconds):
            for family, address in await _addresses(host, port):
                sock = await _connect(family, address, reasons)
                if sock is not None:
                    return sock
    except TimeoutError:
        reasons.append(f"no answer within {timeout_seconds:g} s")
    except socket.gaierror as error:
        reasons.append(f"the name could not be resolved: {error.strerror}")
    raise BrokerUnreachableError(
        f"{peer} could not be reached: {'; '.join(reasons)}",
        hint="check host and port, and that the broker runs and can be reached from here",
        address=peer,
    )


async def _addresses(host: str, port: int) -> list[_Address]:
    try:
        # An address needs no look-up, and so no thread.
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label of the name is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
    return [(family, address) for family, _, _, _, address in found]  # type: ignore[misc]


async def _connect(
    family: int, address: tuple[str, int] | tuple[str, int, int, int], reasons: list[str]
) -> socket.socket | None:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except OSError as error:
        sock.close()
        reasons.append(f"{format_server(address[0], address[1])}: {_reason(error)}")
        return None
    except BaseException:
        sock.close()
        raise
    return sock


def _reason(error: OSError) -> str:
    # asyncio puts the address into strerror, where we have it already.
    return os.strerror(error.errno) if error.errno else type(error).__name__
