import threading

import pytest

from mirrorlake.pipeline.batch import BatchSlots


def test_a_claim_takes_what_it_wants_when_so_much_is_free() -> None:
    with BatchSlots(3).claim(2) as granted:
        assert granted == 2


def test_a_claim_takes_less_when_less_is_free() -> None:
    slots = BatchSlots(3)
    with slots.claim(2), slots.claim(5) as granted:
        assert granted == 1


def test_slots_come_back_also_after_an_error() -> None:
    slots = BatchSlots(1)
    with pytest.raises(RuntimeError), slots.claim(1):
        raise RuntimeError
    with slots.claim(1) as granted:
        assert granted == 1


def test_a_claim_waits_for_a_slot() -> None:
    slots = BatchSlots(1)
    order: list[str] = []

    def wait_for_slot() -> None:
        with slots.claim(1):
            order.append("second")

    second = threading.Thread(target=wait_for_slot)
    with slots.claim(1):
        second.start()
        order.append("first")
    second.join()

    assert order == ["first", "second"]


def test_a_claim_gives_up_when_told_how_long_to_wait() -> None:
    slots = BatchSlots(1)
    with (
        slots.claim(1),
        pytest.raises(TimeoutError, match="none of 1 batch slots"),
        slots.claim(1, timeout_seconds=0.0),
    ):
        pass
