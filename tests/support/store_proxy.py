"""An HTTP proxy before an object store that counts requests and spoils those it is told to."""

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_NOT_PASSED_ON = {"transfer-encoding", "connection", "keep-alive"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRequest:
    """One request as it came. ``path`` has the query in it; ``client`` is the address and port it came from."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    client: tuple[str, int]

    @property
    def is_create(self) -> bool:
        return self.method == "PUT"

    @property
    def name(self) -> str:
        """The last part of the key; empty for a listing."""
        key, _, query = self.path.partition("?")
        return "" if "list-type" in query else key.rpartition("/")[2]

    @property
    def kind(self) -> str:
        """What it does, in the words of an archive."""
        if self.method == "GET" and "list-type" in self.path:
            return "list"
        what = "claim" if self.name.startswith("_") else "segment"
        return {"PUT": "create", "GET": "read", "HEAD": "look at", "DELETE": "delete"}[self.method] + f" {what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What becomes of a request.

    With ``status`` the proxy answers itself; with ``cuts_before`` the store never hears of it; with ``cuts_after`` it
    does all, and its answer is lost. ``without_headers`` are taken out on the way; ``wait_seconds`` comes first. The
    answer's body is an error of ``code``, or ``body``. ``bytes_max`` cuts the store's answer, and its
    length agrees with what is left.
    """

    status: int = 0
    code: str = ""
    cuts_before: bool = False
    cuts_after: bool = False
    without_headers: tuple[str, ...] = ()
    wait_seconds: float = 0.0
    body: str = ""
    bytes_max: int | None = None


Spoil = Callable[[StoreRequest], Fault | None]


@dataclass
class StoreProxy:
    """Listens at ``host``, before ``target_port`` of loopback. ``spoil`` may be changed at any time."""

    target_port: int
    spoil: Spoil = lambda request: None
    requests: list[StoreRequest] = field(default_factory=list)
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        proxy = self
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.handle(self)

            do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815  names of the base class

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((self.host, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self._server.server_address[1]}"

    def kinds(self) -> list[str]:
        with self._lock:
            return [request.kind for request in self.requests]

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        with self._lock:
            request = StoreRequest(
                number=len(self.requests),
                method=handler.command,
                path=handler.path,
                headers=dict(handler.headers),
                client=handler.client_address[:2],
            )
            self.requests.append(request)
        fault = self.spoil(request) or Fault()
        time.sleep(fault.wait_seconds)
        if fault.cuts_before:
            handler.close_connection = True
            return
        if fault.status:
            text = fault.body or f"<Error><Code>{fault.code}</Code><Message>spoilt</Message></Error>"
            self._answer(handler, fault.status, [("Content-Type", "application/xml")], text.encode())
            return
        left_out = {name.lower() for name in fault.without_headers} | {"connection"}
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in left_out}
        upstream = http.client.HTTPConnection("127.0.0.1", self.target_port, timeout=60)
        try:
            upstream.request(request.method, request.path, body=body, headers=headers)
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            handler.close_connection = True  # the store is down, or broke the connection: so do we
            return
        finally:
            upstream.close()
        if fault.cuts_after:
            handler.close_connection = True
            return
        self._answer(handler, answer.status, answer.getheaders(), content[: fault.bytes_max])

    def _answer(
        self, handler: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes
    ) -> None:
        with suppress(OSError):
            handler.send_response_only(status)
            length = str(len(content))
            for name, value in headers:
                if name.lower() == "content-length":
                    length = value if handler.command == "HEAD" else length
                elif name.lower() not in _NOT_PASSED_ON:
                    handler.send_header(name, value)
            handler.send_header("Content-Length", length)
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(content)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
