"""Tables named by store or cluster are found wherever SQL lets a table stand, and nowhere else."""

import pytest

from mirrorlake.errors import QueryError
from mirrorlake.spark_source.sql_tables import read_query

PLACES = {"lake", "east"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select * from lake.orders", "select * from `1 lake.orders` AS `orders`"),
        (
            "SELECT count(*) FROM lake.orders WHERE x = 1;",
            "SELECT count(*) FROM `1 lake.orders` AS `orders` WHERE x = 1",
        ),
        ("select o.key from lake.orders o", "select o.key from `1 lake.orders` o"),
        (
            "select o.key from lake.orders as o, east.audit",
            "select o.key from `1 lake.orders` as o, `2 east.audit` AS `audit`",
        ),
        (
            "select 1 from lake.orders o join east.orders e on o.key = e.key, lake.x",
            "select 1 from `1 lake.orders` o join `2 east.orders` e on o.key = e.key, `3 lake.x` AS `x`",
        ),
        ("with t as (select 1 from lake.orders) select * from t", None),
        ("select * from lake.`my-topic`", "select * from `1 lake.my-topic` AS `my-topic`"),
        ("select * from lake.orders.v2", "select * from `1 lake.orders.v2` AS `orders.v2`"),
        ("select * from (lake.a join lake.b using (key))", None),
        ("select * from t where x in (select key from lake.orders)", None),
        ("from lake.orders select key", "from `1 lake.orders` AS `orders` select key"),
        ("select 'from lake.orders', \"from lake.b\" -- from lake.c\n from lake.d", None),
        (
            "select * from lake.orders tablesample (10 percent)",
            "select * from `1 lake.orders` tablesample (10 percent)",
        ),
    ],
)
def test_tables_become_views_with_the_topic_as_alias_where_there_is_none(text: str, expected: str | None) -> None:
    query = read_query(text, PLACES)

    if expected is not None:
        assert query.text == expected
    for table in query.tables:
        assert f"`{table.view}`" in query.text


@pytest.mark.parametrize(
    "text",
    [
        "select extract(year from o.timestamp) from t o",
        "select trim(both 'x' from lake.value) from t",
        "select * from t where a is distinct from lake.b",
        "select lake.offset, lake.key from t as lake",
        "select * from t where x in (lake.a, lake.b)",
        "select 1 union all values (1)",
        "select * from range(5)",
        "select 'it''s from lake.orders'",
    ],
)
def test_what_is_no_table_is_left_alone(text: str) -> None:
    query = read_query(text, PLACES)

    assert (query.text, query.tables) == (text, ())


def test_each_table_is_named_once_in_the_order_of_the_query() -> None:
    query = read_query("select 1 from lake.b join lake.a join lake.b x", PLACES)

    assert [table.view for table in query.tables] == ["1 lake.b", "2 lake.a"]


def test_names_that_differ_in_case_alone_are_different_tables() -> None:
    query = read_query("select 1 from lake.Orders a, lake.orders b, LAKE.orders c", {*PLACES, "LAKE"})

    assert query.text == "select 1 from `1 lake.Orders` a, `2 lake.orders` b, `3 LAKE.orders` c"
    assert len({table.view.lower() for table in query.tables}) == 3


@pytest.mark.parametrize("explain", ["explain", "EXPLAIN  extended", "-- why\nexplain formatted"])
def test_a_plan_is_asked_for_apart_from_its_query(explain: str) -> None:
    query = read_query(f"{explain} select key from lake.orders", PLACES)

    assert query.explain == explain
    assert query.text.strip() == "select key from `1 lake.orders` AS `orders`"


def test_an_unknown_store_is_named_with_those_there_are() -> None:
    with pytest.raises(QueryError, match="no store or cluster 'lak'") as error:
        read_query("select * from lak.orders", PLACES)
    assert "east, lake" in error.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "drop table x",
        "set -v",
        "insert into t select 1",
        "-- nothing",
        "explain",
        "explain drop table x",
        "explain explain select 1",
    ],
)
def test_only_what_reads_is_a_query(text: str) -> None:
    with pytest.raises(QueryError, match="not a query"):
        read_query(text, PLACES)
