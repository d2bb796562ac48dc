"""Where a master is, by its URL, and the address of this machine that faces it."""

import re
import socket

_SCHEME = re.compile(r"(?:spark|k8s)://(?:https?://)?")
_ADDRESS = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:/,\[\]]+))(?::(?P<port>\d+))?")
_HTTPS_PORT = 443
"""Where Kubernetes listens if its URL does not say."""


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Returns host and port of each master that a URL names, in its order; none for YARN and for one machine."""
    scheme = _SCHEME.match(master)
    if scheme is None:
        return []
    found = (_ADDRESS.match(named) for named in master[scheme.end() :].split(","))
    return [(each["six"] or each["host"], int(each["port"] or _HTTPS_PORT)) for each in found if each is not None]


def address_towards(master: str) -> str:
    """Returns the address of this machine that faces the master, empty where that cannot be told; sends nothing.

    Of several masters it is the first one to which there is a way.
    """
    for host, port in master_addresses(master):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as towards:
                towards.connect(address)  # of a datagram's socket: a route is chosen, nothing travels
                return str(towards.getsockname()[0])
        except OSError:
            continue
    return ""
