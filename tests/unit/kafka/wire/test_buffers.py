"""The pool: bounded, first come first served, and never two frames in one memory."""

import pytest

from mirrorlake.kafka.wire.buffers import BufferPool
from mirrorlake.kafka.wire.frame import Frame

KIB = 1024


def acquire(pool: BufferPool, size_bytes: int) -> bytearray:
    buffer = pool.acquire(size_bytes)
    assert buffer is not None
    return buffer


def test_a_released_buffer_is_used_again() -> None:
    pool = BufferPool(10 * KIB, KIB)
    first = acquire(pool, 5)
    pool.release(first)

    assert acquire(pool, KIB) is first
    assert len(first) == KIB


def test_the_buffer_used_last_comes_first() -> None:
    pool = BufferPool(10 * KIB, KIB)
    first, second = acquire(pool, 1), acquire(pool, 1)
    pool.release(first)
    pool.release(second)

    assert acquire(pool, 1) is second


def test_all_buffers_together_stay_below_the_bound() -> None:
    pool = BufferPool(3 * KIB, KIB)
    held = [acquire(pool, 1) for _ in range(3)]

    assert pool.acquire(1) is None
    assert pool.in_use_bytes == 3 * KIB
    pool.release(held.pop())
    assert pool.acquire(1) is not None


def test_a_larger_frame_gets_a_buffer_made_to_measure_which_is_not_kept() -> None:
    pool = BufferPool(10 * KIB, KIB)
    large = acquire(pool, 5 * KIB)

    assert len(large) == 5 * KIB
    assert pool.in_use_bytes == 5 * KIB
    pool.release(large)
    assert pool.in_use_bytes == 0
    assert len(acquire(pool, 1)) == KIB


def test_kept_buffers_make_room_for_a_large_one() -> None:
    pool = BufferPool(4 * KIB, KIB)
    kept = [acquire(pool, 1) for _ in range(4)]
    for buffer in kept:
        pool.release(buffer)

    acquire(pool, 3 * KIB)

    assert acquire(pool, 1) is kept[-1]
    assert pool.acquire(1) is None


def test_a_buffer_above_the_bound_is_given_when_nothing_else_is_in_use() -> None:
    pool = BufferPool(2 * KIB, KIB)
    small = acquire(pool, 1)

    assert pool.acquire(9 * KIB) is None
    pool.release(small)
    assert len(acquire(pool, 9 * KIB)) == 9 * KIB
    assert pool.acquire(1) is None


def test_those_in_line_are_served_in_their_order() -> None:
    pool = BufferPool(2 * KIB, KIB)
    held = [acquire(pool, 1), acquire(pool, 1)]
    served: list[tuple[str, int]] = []
    pool.wait(2 * KIB, lambda buffer: served.append(("large", len(buffer))))
    pool.wait(1, lambda buffer: served.append(("small", len(buffer))))

    pool.release(held[0])
    assert served == []  # the large one is first, and has not room enough yet
    pool.release(held[1])
    assert served == [("large", 2 * KIB)]
    assert pool.waiting == 1


def test_nobody_overtakes_those_in_line() -> None:
    pool = BufferPool(2 * KIB, KIB)
    held = acquire(pool, 1)
    pool.wait(2 * KIB, lambda buffer: None)

    assert pool.acquire(1) is None
    pool.release(held)
    assert pool.in_use_bytes == 2 * KIB


def test_who_left_the_line_is_not_served() -> None:
    pool = BufferPool(KIB, KIB)
    held = acquire(pool, 1)
    served: list[str] = []
    pool.wait(1, lambda buffer: served.append("gone")).cancel()
    pool.wait(1, lambda buffer: served.append("there"))

    pool.release(held)

    assert served == ["there"]


def test_a_buffer_that_is_still_looked_at_is_never_used_again() -> None:
    pool = BufferPool(KIB, KIB)
    buffer = acquire(pool, 1)
    stale = memoryview(buffer)[:4]
    pool.release(buffer)

    another = acquire(pool, 1)
    another[:4] = b"new!"

    assert another is not buffer
    assert bytes(stale) == b"\0\0\0\0"
    assert (pool.lost_buffers, pool.in_use_bytes) == (1, KIB)


def test_a_frame_gives_its_buffer_back_once() -> None:
    pool = BufferPool(2 * KIB, KIB)
    frame = Frame(acquire(pool, 100), 4, 100, pool)
    assert len(frame.view) == 96

    with frame:
        pass
    frame.release()

    assert (pool.in_use_bytes, pool.lost_buffers) == (0, 0)
    with pytest.raises(ValueError, match="released"):
        frame.view[0]


def test_a_forgotten_frame_gives_its_buffer_back() -> None:
    pool = BufferPool(2 * KIB, KIB)
    frame = Frame(acquire(pool, 100), 4, 100, pool)
    del frame

    assert (pool.in_use_bytes, pool.lost_buffers) == (0, 0)


def test_the_pool_must_hold_at_least_one_buffer() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        BufferPool(10, 11)
