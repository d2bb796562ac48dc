"""Counts by partition as ranges that Spark's JVM makes rows of."""

import re

from mirrorlake.spark_source.sql_counts import ranges_text


def test_each_partition_is_a_range_with_the_columns_asked_for_in_their_order() -> None:
    counts = {("orders", 0): 90, ("orders", 2): 0, ("é 'or'", 7): 120_000_000}

    assert ranges_text(counts, ["topic", "partition"], tasks=8) == (
        "SELECT string(X'6f7264657273') AS `topic`, 0 AS `partition` FROM range(0, 90, 1, 1)"
        " UNION ALL SELECT string(X'6f7264657273') AS `topic`, 2 AS `partition` FROM range(0, 0, 1, 1)"
        " UNION ALL SELECT string(X'c3a920276f7227') AS `topic`, 7 AS `partition` FROM range(0, 120000000, 1, 2)"
    )
    assert re.fullmatch(r"SELECT 3 AS `partition` FROM range\(.*\)", ranges_text({("a", 3): 1}, ["partition"], tasks=1))


def test_an_archive_without_a_file_to_read_has_no_rows() -> None:
    assert ranges_text({}, ["partition"], tasks=2) == "SELECT 0 AS `partition` FROM range(0, 0, 1, 1)"
