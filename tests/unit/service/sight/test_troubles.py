"""What many partitions have in common is told in one line."""

from dataclasses import replace

from mirrorlake.service.sight.troubles import Line, Trouble, lines_of


def trouble(partition: int, error: str, *, topic: str = "orders", mirror: str = "m", failures: int = 1) -> Trouble:
    return Trouble(
        event="partition failed, trying again",
        is_final=False,
        partition=f"{topic}-{partition}",
        facts={"mirror": mirror, "topic": topic, "partition": partition, "destination": "west", "error": error},
        own={"failures": failures},
    )


def test_one_partition_alone_says_everything_of_itself() -> None:
    assert lines_of([trouble(3, "no answer", failures=2)]) == [
        Line(
            event="partition failed, trying again",
            is_final=False,
            facts={
                "mirror": "m",
                "topic": "orders",
                "partition": 3,
                "destination": "west",
                "error": "no answer",
                "failures": 2,
            },
        )
    ]


def test_errors_of_one_broker_are_one_line_with_the_number_of_partitions() -> None:
    (line,) = lines_of(trouble(number, "broker 1 did not answer", failures=number) for number in range(18))
    assert line.facts == {
        "mirror": "m",
        "topic": "orders",
        "destination": "west",
        "error": "broker 1 did not answer",
        "partitions": 18,
        "which": ", ".join(f"orders-{number}" for number in range(10)) + " …",
    }


def test_the_partitions_own_name_in_the_message_makes_no_difference() -> None:
    (line,) = lines_of(trouble(number, f"orders-{number} has no leader") for number in (4, 7))
    assert (line.facts["error"], line.facts["which"]) == ("orders-4 has no leader", "orders-4, orders-7")


def test_what_is_the_same_for_all_of_them_is_said_too() -> None:
    (line,) = lines_of(trouble(number, "no answer", failures=4) for number in range(2))
    assert line.facts["failures"] == 4


def test_several_topics_are_named_with_their_partitions() -> None:
    (line,) = lines_of([trouble(0, "no answer", topic="a"), trouble(1, "no answer", topic="b")])
    assert "topic" not in line.facts
    assert line.facts["which"] == "a-0, b-1"


def test_what_is_final_is_told_for_each_topic() -> None:
    parked = [replace(trouble(0, "no", topic=topic), is_final=True) for topic in ("a", "b", "b")]
    assert [(line.facts["topic"], line.facts.get("partitions")) for line in lines_of(parked)] == [("a", None), ("b", 2)]


def test_other_numbers_and_other_mirrors_are_other_troubles() -> None:
    assert len(lines_of([trouble(0, "at 5"), trouble(1, "at 6")])) == 2
    assert len(lines_of([trouble(0, "at 5", mirror="a"), trouble(0, "at 5", mirror="b")])) == 2
