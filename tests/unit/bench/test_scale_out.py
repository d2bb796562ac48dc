"""When the copying of a scale-out begins: with the last worker that copies, not with the first record."""

from bench.scale_out import AllCopy, CopyCpu, executors_ready

START = "2026-11-23T12:00:00Z info executors ready clocks_differ_seconds=0.1 executors={} hosts=127.0.0.1 slots={}\n"
JOINED = "2026-11-23T12:00:09Z info executor ready executor=2 host=127.0.0.1 slots=1\n"


def test_executors_of_the_start_and_those_that_join_are_counted() -> None:
    assert executors_ready("") == 0
    assert executors_ready("warning fewer slots than lanes and batch slots executors=1\n") == 0
    assert executors_ready(START.format(2, 2)) == 2
    assert executors_ready(START.format(1, 1) + JOINED) == 2


def test_the_copying_begins_when_every_worker_has_worked_since_all_were_ready() -> None:
    beginning = AllCopy(2)
    assert not beginning.look(1, [9.0, 0.0]), "the first one copies, alone"
    assert not beginning.look(2, [12.0, 3.0]), "the second one has been looked at, which is no copying"
    assert not beginning.look(2, [13.0, 3.1])
    assert not beginning.look(2, [12.1, 4.0]), "a lease of the first one waits"
    assert beginning.look(2, [12.3, 3.3])


def test_of_one_worker_it_begins_when_it_copies() -> None:
    beginning = AllCopy(1)
    assert not beginning.look(0, [0.0])
    assert not beginning.look(1, [2.0])
    assert beginning.look(1, [2.2])


def test_the_processor_time_of_a_copy_counts_from_its_beginning_to_its_last_look() -> None:
    copy = CopyCpu()
    for used_seconds, has_begun in ((2.0, False), (7.5, False), (8.0, True), (19.0, True)):
        copy.look(used_seconds, has_begun=has_begun)
    assert copy.seconds == 11.5
