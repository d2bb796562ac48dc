"""What a pause means for partitions that are there, and for those found later."""

import pytest

from mirrorlake.offsets import TopicPartition
from mirrorlake.service.selection import Pauses, Selection

ALL = Selection(mirror="m")
ORDERS = Selection(mirror="m", topic="orders")
FIRST = Selection(mirror="m", topic="orders", partition=0)
OTHER = Selection(mirror="n")
ORDERS_0, ORDERS_1, BILLS_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


@pytest.mark.parametrize(
    ("rules", "paused", "kept"),
    [
        ([], (False, False, False), 0),
        ([(ALL, True)], (True, True, True), 1),
        ([(ORDERS, True)], (True, True, False), 1),
        ([(FIRST, True)], (True, False, False), 1),
        ([(OTHER, True)], (False, False, False), 1),
        ([(ALL, True), (ALL, True)], (True, True, True), 1),
        ([(ALL, True), (ALL, False)], (False, False, False), 0),
        ([(ALL, False)], (False, False, False), 0),
        ([(ALL, True), (ORDERS, False)], (False, False, True), 2),
        ([(ALL, True), (ORDERS, False), (FIRST, True)], (True, False, True), 3),
        ([(ALL, True), (ORDERS, False), (ORDERS, True)], (True, True, True), 1),
        ([(FIRST, True), (ORDERS, False)], (False, False, False), 0),
        ([(FIRST, True), (ALL, True), (FIRST, False)], (False, True, True), 2),
        ([(ALL, True), (FIRST, False), (ALL, False)], (False, False, False), 0),
    ],
)
def test_the_last_word_on_a_partition_holds(
    rules: list[tuple[Selection, bool]], paused: tuple[bool, bool, bool], kept: int
) -> None:
    pauses = Pauses()
    for selection, is_paused in rules:
        pauses = pauses.with_rule(selection, is_paused=is_paused)
    assert tuple(pauses.is_paused("m", source) for source in (ORDERS_0, ORDERS_1, BILLS_0)) == paused
    assert len(pauses.rules) == kept
    assert Pauses.of_text(pauses.as_text()) == pauses


def test_selections_are_named_as_people_write_them() -> None:
    assert [str(each) for each in (ALL, ORDERS, FIRST)] == ["m", "m: orders", "m: orders-0"]
