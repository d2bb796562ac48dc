"""Shopify's toxiproxy between clients and a broker: faults of the byte stream, by a hand other than ours.

It is built from source by Go, once per machine. Where there is no Go, `ToxiproxyUnusableError` says so; only the
soak asks for it. The quick tests use ``support.proxy``.
"""

import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.embedded.guarded_process import GuardedProcess
from support.go_programs import TOXIPROXY, GoProgramUnusableError, built

VERSION = TOXIPROXY.version
_START_SECONDS_MAX = 20.0


class ToxiproxyUnusableError(Exception):
    """It is not there and could not be built."""


def toxiproxy_server(cache: Path | None = None) -> Path:
    """The server program, built on the first call (about a minute)."""
    try:
        return built(TOXIPROXY, cache)
    except GoProgramUnusableError as error:
        raise ToxiproxyUnusableError(str(error)) from error


class Toxiproxy:
    """A running server with one listener per broker."""

    def __init__(self, folder: Path, program: Path) -> None:
        self._port = _free_port()
        self._process = GuardedProcess(
            [str(program), "-host", "127.0.0.1", "-port", str(self._port)], log_path=folder / "toxiproxy.log"
        )
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                self._call("GET", "/version")
            except urllib.error.URLError:
                assert time.monotonic() < give_up_at, (folder / "toxiproxy.log").read_text()
                time.sleep(0.05)
            else:
                return

    def add(self, name: str, *, target_port: int) -> int:
        """Listens for ``name`` on a free port, which is returned, and passes on to ``target_port``."""
        made = self._call("POST", "/proxies", name=name, listen="127.0.0.1:0", upstream=f"127.0.0.1:{target_port}")
        return int(str(made["listen"]).rpartition(":")[2])

    def spoil(self, name: str, kind: str, *, stream: str = "downstream", **attributes: int) -> None:
        """Adds a toxic: ``latency`` (latency, jitter: ms), ``bandwidth`` (rate: KB/s), ``timeout`` (timeout: ms, 0 for
        a black hole), ``reset_peer`` (timeout: ms), ``slicer``, ``limit_data`` (bytes)."""
        self._call("POST", f"/proxies/{name}/toxics", type=kind, stream=stream, attributes=attributes)

    def heal(self, name: str) -> None:
        """Removes every toxic of ``name``; connections that one has silenced are closed by it."""
        toxics = self._call("GET", f"/proxies/{name}")["toxics"]
        assert isinstance(toxics, list)
        for toxic in toxics:
            self._call("DELETE", f"/proxies/{name}/toxics/{toxic['name']}")

    def cut(self, name: str) -> None:
        """Ends every connection and takes none, until `join`."""
        self._call("POST", f"/proxies/{name}", enabled=False)

    def join(self, name: str) -> None:
        """Listens again."""
        self._call("POST", f"/proxies/{name}", enabled=True)

    def _call(self, method: str, path: str, **content: object) -> dict[str, object]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            method=method,
            data=json.dumps(content).encode() if content else None,
            headers={"Content-Type": "application/json", "User-Agent": "toxiproxy-cli"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            body = answer.read()
        found: dict[str, object] = {}
        if body.startswith(b"{"):
            found = json.loads(body)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()


def _free_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])
