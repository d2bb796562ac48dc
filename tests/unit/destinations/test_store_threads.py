"""How many finished segments are on their way at one time."""

import threading
import time

import pytest

from mirrorlake.destinations.store_threads import StoreThreads


def test_more_than_there_is_room_for_wait_until_one_has_ended() -> None:
    threads = StoreThreads(publications_max=2)
    begun, gate = threading.Semaphore(0), threading.Event()

    def publish() -> int:
        begun.release()
        assert gate.wait(30)
        return 7

    running = [threads.publish(publish) for _ in range(2)]
    assert begun.acquire(timeout=30)
    assert begun.acquire(timeout=30)
    third = threading.Thread(target=lambda: running.append(threads.publish(publish)))
    third.start()
    time.sleep(0.2)
    assert len(running) == 2
    gate.set()
    third.join(30)
    assert [each.result(30) for each in running] == [7, 7, 7]
    threads.close()


def test_a_publication_that_fails_makes_room_all_the_same() -> None:
    threads = StoreThreads(publications_max=1)

    def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            threads.publish(fail).result(30)
    threads.close()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            threads.publish(fail)
