"""The read-only HTTP listener of a running service: plain HTTP, a few paths, 404 for all others."""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from mirrorlake.errors import ConfigurationError
from mirrorlake.service.sight.health import Verdict

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]

REQUEST_SECONDS_MAX = 30.0
"""A client that sends nothing, or takes nothing, keeps its thread so long."""


class Listener:
    """Serves some paths over plain HTTP until closed, each request in a thread of its own.

    Args:
        routes: what answers, by path.
        host: address to listen on.
        port: port to listen on; 0 takes a free one.

    Raises:
        ConfigurationError: the address is taken or not ours.
    """

    def __init__(self, routes: Mapping[str, WsgiApp], host: str, port: int) -> None:
        try:
            self._server = make_server(
                host,
                port,
                routed(routes),
                _ServerOnIPv6 if ":" in host else _Server,
                handler_class=_SilentHandler,
            )
        except OSError as error:
            raise ConfigurationError(
                f"the metrics endpoint cannot listen on {host}:{port}: {error.strerror}",
                hint="set service.metrics (mirror-v3 form: MIRROR_V3_METRICS_PORT) to a free port, or switch it off",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="listener", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5.0)


def routed(routes: Mapping[str, WsgiApp]) -> WsgiApp:
    """Returns an application that answers these paths, and 404 for all others, which names them."""

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        answer = routes.get(environ.get("PATH_INFO", ""))
        if answer is not None:
            return answer(environ, start_response)
        return _json(start_response, HTTPStatus.NOT_FOUND, {"paths": sorted(routes)})

    return app


def verdict_app(judge: Callable[[], Verdict]) -> WsgiApp:
    """Returns an application that answers 200 where a verdict is good and 503 where it is not, with its reasons."""

    def app(_: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        verdict = judge()
        status = HTTPStatus.OK if verdict.is_good else HTTPStatus.SERVICE_UNAVAILABLE
        return _json(start_response, status, {"ok": verdict.is_good, "reasons": list(verdict.reasons)})

    return app


def json_app(value: Callable[[], object]) -> WsgiApp:
    """Returns an application that answers with a value as JSON."""

    def app(_: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return _json(start_response, HTTPStatus.OK, value())

    return app


def _json(start_response: Any, status: HTTPStatus, value: object) -> list[bytes]:
    body = (json.dumps(value, ensure_ascii=False) + "\n").encode()
    headers = [("Content-Type", "application/json; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(f"{status.value} {status.phrase}", [*headers, ("Cache-Control", "no-store")])
    return [body]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerOnIPv6(_Server):
    address_family = socket.AF_INET6


class _SilentHandler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS_MAX

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: probes come every few seconds."""
