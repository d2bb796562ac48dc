"""When a restore is one: by what its plan said, not by what the archive has gained since."""

import pytest

from mirrorlake.cli.restore import are_restored
from mirrorlake.offsets import TopicPartition
from mirrorlake.service.plan.planning import Action, Plan, PlanRow
from mirrorlake.service.status import StatusRow
from mirrorlake.verify.verdict import Result, Verdict
from unit.service.test_changes import target


def row(partition: int, position: int, *, start: int = 0, end: int) -> StatusRow:
    found = target(partition)
    assert found.source == TopicPartition("orders", partition)
    return StatusRow(target=found, source_start=start, source_end=end, position=position)


def planned(*rows: StatusRow) -> Plan:
    made = [PlanRow(status=each, action=Action.COPY, start=each.position, end=each.source_end) for each in rows]
    return Plan(rows=made, idle=())


@pytest.mark.parametrize(
    ("position", "end_now", "result", "is_restored"),
    [
        (100, 100, Result.EQUAL, True),
        (100, 150, Result.EQUAL, True),  # the archive is still being written
        (120, 150, Result.EQUAL, True),
        (90, 150, Result.EQUAL, False),  # short of what there was when it began
        (100, 150, Result.DIFFERS, False),
        (100, 100, Result.EMPTY, False),
        (100, 100, Result.FAILED, False),
    ],
)
def test_a_partition_is_restored_to_the_end_that_the_plan_said(
    position: int, end_now: int, result: Result, is_restored: bool
) -> None:
    verdict = Verdict(row=row(0, position, end=end_now), result=result)
    assert are_restored(planned(row(0, 0, end=100)), [verdict]) is is_restored


def test_one_partition_that_is_not_restored_is_enough() -> None:
    plan = planned(row(0, 0, end=100), row(1, 0, end=100))
    verdicts = [Verdict(row=row(n, position, end=100), result=Result.EQUAL) for n, position in ((0, 100), (1, 99))]
    assert not are_restored(plan, verdicts)


def test_what_was_empty_when_it_began_is_restored_whatever_came_since() -> None:
    for start in (0, 30):
        plan = planned(row(0, start, start=start, end=start))
        assert are_restored(plan, [Verdict(row=row(0, start, start=start, end=70), result=Result.EMPTY)])


def test_what_came_while_it_ran_must_be_equal_as_far_as_it_was_restored() -> None:
    plan = planned(row(0, 0, end=100))
    whole = Verdict(row=row(0, 100, end=100), result=Result.EQUAL)
    assert are_restored(plan, [whole, Verdict(row=row(1, 0, end=10), result=Result.FAILED)])
    assert not are_restored(plan, [whole, Verdict(row=row(1, 10, end=10), result=Result.DIFFERS)])
