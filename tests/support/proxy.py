"""A TCP proxy between clients and one broker, that knows Kafka's framing and spoils what it is told to spoil.

One proxy stands for one broker, which advertises the proxy's address. Clients of another language, or code under
test that does not know about it, meet the faults all the same.
"""

import contextlib
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH, ADD_PARTITIONS_TO_TXN, END_TXN = 22, 23, 24, 26
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS = 61, 65

_HEAD_BYTES = 8  # of a request: size, API key, version; of an answer: size, correlation id
_SLICE_BYTES = 1 << 14
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class _Kind(StrEnum):
    CUT_ANSWER = "cut before the answer"
    CUT_REQUEST = "cut before the request"
    HOLD = "hold the request"


class Held:
    """A request that is kept on its way: what follows it on its connection waits behind it.

    It outlives its client: a process that was killed, or gave the connection up, can no longer call it back.
    """

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._decided = threading.Event()
        self._is_lost = False

    def await_arrival(self, seconds: float = 60.0) -> None:
        assert self._arrived.wait(seconds), "no such request came"

    def release(self) -> None:
        """Lets it go on to the broker."""
        self._decided.set()

    def lose(self) -> None:
        """Drops it, and its connection."""
        self._is_lost = True
        self._decided.set()

    def passes(self) -> bool:
        """For the proxy: waits for the decision."""
        self._arrived.set()
        self._decided.wait()
        return not self._is_lost


@dataclass(slots=True)
class _Order:
    """What is to happen to one request that has not come yet."""

    kind: _Kind
    api_key: int
    remaining: int
    held: Held = field(default_factory=Held)


class Proxy:
    """Listens on a free port and passes on what it gets, request by request and answer by answer.

    Everything may be changed while it runs, from any thread. ``requests`` counts what was passed on, by API key.

    Attributes:
        target_port: the broker's own port, on 127.0.0.1.
        answer_delay_seconds: before every answer, plus up to ``answer_jitter_seconds`` at random.
        bytes_per_second: of each direction of each connection; 0 for as many as there are.
        refuses: closes every new connection at once, as a port does that nobody listens on.
    """

    def __init__(self, target_port: int = 0) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self.target_port = target_port
        self.answer_delay_seconds = 0.0
        self.answer_jitter_seconds = 0.0
        self.bytes_per_second = 0
        self.refuses = False
        self.requests: dict[int, int] = {}
        self.cuts = 0
        self._lock = threading.Lock()
        self._orders: list[_Order] = []
        self._held: list[Held] = []
        self._flows = threading.Event()
        self._flows.set()
        self._pairs: set[_Pair] = set()
        self._is_over = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut_before_answer(self, api_key: int, *, after_requests: int = 1) -> None:
        """Passes the ``after_requests``-th request from now on of that kind on, then loses its answer and the
        connection. Answers to what was sent before it still arrive."""
        self._add(_Order(_Kind.CUT_ANSWER, api_key, after_requests))

    def cut_before_request(self, api_key: int, *, after_requests: int = 1) -> None:
        """Loses the connection in place of passing that request on."""
        self._add(_Order(_Kind.CUT_REQUEST, api_key, after_requests))

    def hold(self, api_key: int, *, after_requests: int = 1) -> Held:
        """Keeps the ``after_requests``-th request from now on of that kind on its way."""
        order = _Order(_Kind.HOLD, api_key, after_requests)
        self._add(order)
        self._held.append(order.held)
        return order.held

    def forgive(self) -> None:
        """Ends every fault: what is held goes on, no order that has not happened yet will, connections are new."""
        with self._lock:
            self._orders.clear()
            held, self._held = self._held, []
        for each in held:
            each.release()
        self.answer_delay_seconds = self.answer_jitter_seconds = 0.0
        self.bytes_per_second = 0
        self.refuses = False
        self._flows.set()
        self.reset_connections()

    def fall_silent(self) -> None:
        """Passes nothing on any more, on no connection, and closes none: a black hole. New ones are taken."""
        self._flows.clear()

    def wake(self, *, lose_connections: bool = False) -> None:
        """Lets bytes flow again; with ``lose_connections`` only on new ones, the old stay silent for ever."""
        if lose_connections:
            for pair in self._taken():
                pair.is_silent = True
        self._flows.set()

    def reset_connections(self) -> None:
        """Ends every connection with a RST on both sides: what was on its way is gone."""
        for pair in self._taken():
            for each in (pair.client, pair.broker):
                with contextlib.suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            pair.close()

    def half_open(self) -> None:
        """The broker's ends are closed, the clients' stay open and never hear of it."""
        for pair in self._taken():
            pair.is_silent = True
            _close(pair.broker)

    def _taken(self) -> "list[_Pair]":
        with self._lock:
            pairs = list(self._pairs)
            self._pairs.clear()
        return pairs

    def _add(self, order: _Order) -> None:
        with self._lock:
            self._orders.append(order)

    def _order_for(self, api_key: int) -> _Order | None:
        """Counts a request; returns what is to happen to it."""
        with self._lock:
            self.requests[api_key] = self.requests.get(api_key, 0) + 1
            due = None
            for order in [each for each in self._orders if each.api_key == api_key]:
                order.remaining -= 1
                if order.remaining == 0 and due is None:
                    due = order
                    self._orders.remove(order)
            return due

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                try:
                    if self.refuses:
                        raise ConnectionRefusedError
                    broker = socket.create_connection(("127.0.0.1", self.target_port))
                except OSError:
                    client.close()
                    continue
                pair = _Pair(client, broker)
                with self._lock:
                    self._pairs.add(pair)
                threading.Thread(target=self._pass_requests, args=(pair,), daemon=True).start()
                threading.Thread(target=self._pass_answers, args=(pair,), daemon=True).start()

    def _may_pass(self, pair: "_Pair", came_from: socket.socket) -> bool:
        """Waits while nothing flows. What comes on a connection that fell silent for ever is swallowed to its end."""
        self._flows.wait()
        if pair.is_silent and not self._is_over:
            while came_from.recv(_SLICE_BYTES):
                pass
        return not pair.is_silent and not self._is_over

    def _pass_requests(self, pair: "_Pair") -> None:
        with contextlib.suppress(OSError):
            while (head := _read_exactly(pair.client, _HEAD_BYTES)) is not None:
                size, api_key, _version = struct.unpack(">ihh", head)
                body = _read_exactly(pair.client, size - 4)
                if body is None or not self._may_pass(pair, pair.client):
                    break
                order = self._order_for(api_key)
                if order is not None:
                    if order.kind is _Kind.CUT_REQUEST or (order.kind is _Kind.HOLD and not order.held.passes()):
                        self._count_cut()
                        break
                    if order.kind is _Kind.CUT_ANSWER:
                        pair.lost_correlation = struct.unpack_from(">i", body)[0]
                self._send(pair.broker, head + body)
            if head is None:
                pair.is_client_gone = True
                if not pair.is_silent:
                    # The broker reads what the client sent, and hangs up then.
                    pair.broker.shutdown(socket.SHUT_WR)
                    return
        self._end(pair)

    def _end(self, pair: "_Pair") -> None:
        with self._lock:
            self._pairs.discard(pair)
        pair.close()

    def _pass_answers(self, pair: "_Pair") -> None:
        is_client_gone = False
        with contextlib.suppress(OSError):
            while (head := _read_exactly(pair.broker, _HEAD_BYTES)) is not None:
                size, correlation = struct.unpack(">ii", head)
                body = _read_exactly(pair.broker, size - 4)
                if body is None or not self._may_pass(pair, pair.broker):
                    break
                if correlation == pair.lost_correlation:
                    self._count_cut()
                    break
                delay = self.answer_delay_seconds + random.uniform(0.0, self.answer_jitter_seconds)
                if delay:
                    time.sleep(delay)
                if not is_client_gone:
                    try:
                        self._send(pair.client, head + body)
                    except OSError:
                        is_client_gone = True  # what it has sent goes on to the broker all the same
        if not pair.is_silent or pair.is_client_gone:  # else the client is never to hear of it
            self._end(pair)

    def _send(self, sock: socket.socket, data: bytes) -> None:
        if not self.bytes_per_second:
            sock.sendall(data)
            return
        for start in range(0, len(data), _SLICE_BYTES):
            part = data[start : start + _SLICE_BYTES]
            if pace := self.bytes_per_second:
                time.sleep(len(part) / pace)
            sock.sendall(part)

    def _count_cut(self) -> None:
        with self._lock:
            self.cuts += 1

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
        for pair in self._taken():
            pair.close()


class _Pair:
    """The two ends of one proxied connection."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.client = client
        self.broker = broker
        self.lost_correlation: int | None = None
        self.is_silent = False
        self.is_client_gone = False
        for each in (client, broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        _close(self.client)
        _close(self.broker)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()


def _read_exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        data = sock.recv(count - len(parts))
        if not data:
            return None
        parts += data
    return bytes(parts)
