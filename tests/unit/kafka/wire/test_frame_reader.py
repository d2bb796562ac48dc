"""Frames come out whole and in order, however the socket cuts them."""

import random
import struct

import pytest

from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.frame import Frame
from mirrorlake.kafka.wire.frame_reader import HEAD_BYTES, SMALL_FRAME_BYTES, FrameReader


class Received:
    """Collects what a reader says."""

    def __init__(self, pool: BufferPool, *, keeps: bool = False) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.kept: list[Frame] = []
        self.refused: list[tuple[int, bytes]] = []
        self.resumed = 0
        self._keeps = keeps
        self.reader = FrameReader(pool, deliver=self.deliver, refuse=self.refuse, resume=self.resume)

    def deliver(self, correlation_id: int, frame: Frame) -> None:
        self.frames.append((correlation_id, bytes(frame.view)))
        if self._keeps:
            self.kept.append(frame)
        else:
            frame.release()

    def refuse(self, size: int, start: bytes) -> None:
        self.refused.append((size, start))

    def resume(self) -> None:
        self.resumed += 1

    def feed(self, data: bytes, rng: random.Random | None = None) -> bytes:
        """Hands over ``data`` piece by piece; returns what is left when the reader has to wait."""
        while data and not self.reader.is_waiting:
            room = self.reader.room()
            size = min(len(room), len(data))
            if rng is not None:
                size = rng.randint(1, size)
            room[:size] = data[:size]
            self.reader.received(size)
            data = data[size:]
        return data


def frame(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


SIZES = [0, 1, HEAD_BYTES - 8, HEAD_BYTES - 7, HEAD_BYTES, 3, SMALL_FRAME_BYTES, SMALL_FRAME_BYTES - 4, 0, 300_000, 7]


@pytest.mark.parametrize("seed", [None, *range(30)])
def test_frames_of_all_sizes_come_out_as_they_went_in(seed: int | None) -> None:
    rng = random.Random(seed)
    sent = [(number, rng.randbytes(size)) for number, size in enumerate(rng.sample(SIZES, len(SIZES)))]
    pool = BufferPool(1 << 20, 1 << 17)
    received = Received(pool)

    left = received.feed(b"".join(frame(number, body) for number, body in sent), None if seed is None else rng)

    assert left == b""
    assert received.frames == sent
    assert (pool.in_use_bytes, pool.lost_buffers) == (0, 0)


def test_what_is_missing_is_told_of_frames_that_do_not_fit_into_the_head() -> None:
    received = Received(BufferPool(1 << 20, 1 << 17))
    missing = [received.reader.missing_bytes]
    whole = frame(1, bytes(90_000)) + frame(2, b"small")

    for start, stop in [(0, 2), (2, HEAD_BYTES), (HEAD_BYTES, 50_000), (50_000, 90_008), (90_008, len(whole))]:
        received.feed(whole[start:stop])
        missing.append(received.reader.missing_bytes)

    assert missing == [0, 0, 90_008 - HEAD_BYTES, 40_008, 0, 0]
    assert [number for number, _ in received.frames] == [1, 2]


def test_a_large_frame_waits_for_a_buffer_and_goes_on_with_it() -> None:
    pool = BufferPool(100_000, 100_000)
    received = Received(pool, keeps=True)
    bodies = [b"a" * 90_000, b"b" * 90_000, b"tail"]

    left = received.feed(b"".join(frame(number, body) for number, body in enumerate(bodies)))

    assert received.reader.is_waiting
    assert len(received.frames) == 1
    received.kept.pop().release()
    assert (received.reader.is_waiting, received.resumed) == (False, 1)
    assert received.feed(left) == b""
    assert received.frames == list(enumerate(bodies))


def test_small_frames_pass_while_the_pool_is_exhausted() -> None:
    pool = BufferPool(100_000, 100_000)
    assert pool.acquire(1) is not None
    received = Received(pool, keeps=True)

    assert received.feed(frame(1, b"x" * (SMALL_FRAME_BYTES - 4)) + frame(2, b"y")) == b""

    assert [number for number, _ in received.frames] == [1, 2]


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 0x48545450])
def test_a_length_that_cannot_be_is_refused_and_nothing_is_read_after_it(size: int) -> None:
    received = Received(BufferPool(1000, 1000, frame_bytes_max=1000))

    received.feed(frame(1, b"fine") + struct.pack(">i", size) + b"rest of it")

    assert received.frames == [(1, b"fine")]
    assert received.refused == [(size, struct.pack(">i", size) + b"rest of it")]


@pytest.mark.parametrize("received_bytes", [2, 10, 50_000, 80_000])
def test_closing_amid_a_frame_gives_everything_back(received_bytes: int) -> None:
    pool = BufferPool(100_000, 100_000)
    received = Received(pool)
    received.feed(frame(1, b"x" * 90_000)[:received_bytes])

    received.reader.close()
    received.reader.close()

    assert (pool.in_use_bytes, pool.waiting, pool.lost_buffers) == (0, 0, 0)


def test_closing_while_waiting_leaves_the_line() -> None:
    pool = BufferPool(100_000, 100_000)
    held = pool.acquire(1)
    assert held is not None
    received = Received(pool)
    received.feed(frame(1, b"x" * 90_000))
    assert pool.waiting == 1

    received.reader.close()
    pool.release(held)

    assert (pool.in_use_bytes, pool.waiting, received.resumed) == (0, 0, 0)
