"""A TCP proxy between a client and one broker, that loses what it is told to lose."""

import contextlib
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

PRODUCE = 0


class Proxy:
    """Listens on a free port and passes on what it gets, request by request.

    Everything may be changed while it runs, from any thread. ``requests`` counts what was passed on, by API key.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.target_port = 0
        self.answer_delay_seconds = 0.0
        self.requests: dict[int, int] = {}
        self.cuts = 0
        self._lock = threading.Lock()
        self._cut_api: int | None = None
        self._cut_after = 0
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._is_over = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut_before_answer(self, api_key: int, *, after_requests: int) -> None:
        """Passes the ``after_requests``-th request from now on of that kind on, then loses its answer and the
        connection."""
        with self._lock:
            self._cut_api, self._cut_after = api_key, after_requests

    def fall_silent(self) -> None:
        """Passes nothing on any more, on no connection, and closes none: a black hole."""
        self._flows.clear()

    def wake(self, *, lose_connections: bool = False) -> None:
        """Lets bytes flow again; with ``lose_connections`` only on new ones, the old stay silent for ever."""
        if lose_connections:
            with self._lock:
                self._sockets.clear()  # open still, held by their threads, which look here before they pass on
        self._flows.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self.target_port))
                except OSError:
                    client.close()
                    continue
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._sockets += [client, broker]
                pair = _Pair(client, broker)
                threading.Thread(target=self._pass_requests, args=(pair,), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(pair,), daemon=True).start()

    def _may_pass(self, pair: "_Pair") -> bool:
        self._flows.wait()
        while not self._is_over:
            with self._lock:
                if pair.client in self._sockets:
                    return True
            time.sleep(0.1)
        return False

    def _pass_requests(self, pair: "_Pair") -> None:
        with contextlib.suppress(OSError):
            while (head := _read_exactly(pair.client, 8)) is not None:
                size, api_key = struct.unpack_from(">ih", head)
                body = _read_exactly(pair.client, size - 4)
                if body is None or not self._may_pass(pair):
                    break
                with self._lock:
                    self.requests[api_key] = self.requests.get(api_key, 0) + 1
                    if api_key == self._cut_api:
                        self._cut_after -= 1
                        if self._cut_after == 0:
                            self._cut_api = None
                            pair.loses_answers = True
                pair.broker.sendall(head + body)
        pair.close()

    def _pass_answers(self, pair: "_Pair") -> None:
        with contextlib.suppress(OSError):
            while (data := pair.broker.recv(1 << 16)) and self._may_pass(pair):
                if pair.loses_answers:
                    with self._lock:
                        self.cuts += 1
                    break
                if self.answer_delay_seconds:
                    time.sleep(self.answer_delay_seconds)
                pair.client.sendall(data)
        pair.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._flows.set()
        # Closing alone would leave the thread in accept(), and with it the port.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class _Pair:
    """The two ends of one proxied connection."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client = client
        self.broker = broker
        self.loses_answers = False

    def close(self) -> None:
        for each in (self.client, self.broker):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _read_exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        data = sock.recv(count - len(parts))
        if not data:
            return None
        parts += data
    return bytes(parts)
