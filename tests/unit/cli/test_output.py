import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mirrorlake.cli import output, plan, status, verify
from mirrorlake.cli.output import Row, fit, print_json, print_table

NAMES = [("shop", "orders", n, to) for n in (0, 1) for to in ("west", "lake")] + [("books", "customers", 0, "lake")]

STATUS: Sequence[Row] = [
    {
        "name": name,
        "topic": topic,
        "partition": n,
        "destination": to,
        "source_low": 0,
        "source_high": 1234567,
        "dest_next": 1234567,
        "lag": 0,
        "lag_seconds": 0.0,
        "state": "caught-up",
    }
    for name, topic, n, to in NAMES
]
VERIFY: Sequence[Row] = [
    {
        "name": name,
        "topic": topic,
        "partition": n,
        "destination": to,
        "start": 0,
        "end": 74567,
        "lag": 0,
        "records": 74567,
        "result": "equal",
        "first_difference": None,
        "difference": None,
    }
    for name, topic, n, to in NAMES
]
PLAN: Sequence[Row] = [
    {
        "name": name,
        "topic": topic,
        "partition": n,
        "destination": to,
        "start": 0,
        "end": 74567,
        "to": f"/var/lib/mirrorlake/{to}/{topic}",
        "action": "create and copy",
        "offsets": 74567,
        "note": "topic with 4 partition(s), cleanup.policy=compact" if to == "west" else None,
    }
    for name, topic, n, to in NAMES
]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(STATUS, status.COLUMNS), (VERIFY, verify.COLUMNS), (PLAN, plan.COLUMNS)],
    ids=["status", "verify", "plan"],
)
def test_everything_is_shown_as_it_is_where_the_screen_is_wide(rows: Sequence[Row], columns: Sequence[str]) -> None:
    layout = fit(rows, columns, width=240)

    assert layout.columns == tuple(columns)
    assert (layout.common, layout.folded) == ({}, frozenset())


def test_a_status_keeps_every_column_on_a_narrow_screen_but_how_many_seconds_it_lags() -> None:
    layout = fit(STATUS, status.COLUMNS, width=80)

    assert layout.columns == tuple(column for column in status.COLUMNS if column != "lag_seconds")
    assert layout.headings["source_high"] == "SOURCE\nHIGH"
    assert not layout.folded


def test_a_verification_where_all_is_equal_loses_only_the_empty_columns() -> None:
    layout = fit(VERIFY, verify.COLUMNS, width=80)

    assert set(verify.COLUMNS) - set(layout.columns) == {"first_difference", "difference"}


def test_a_difference_is_shown_on_a_narrow_screen_too() -> None:
    rows: list[Row] = [
        *VERIFY[:-1],
        {**VERIFY[-1], "result": "differs", "first_difference": 7, "difference": "missing"},
    ]

    layout = fit(rows, verify.COLUMNS, width=80)

    assert {"result", "first_difference", "difference"} <= set(layout.columns)


def test_a_plan_loses_what_other_columns_say_and_folds_its_notes() -> None:
    layout = fit(PLAN, plan.COLUMNS, width=80)

    assert set(plan.COLUMNS) - set(layout.columns) == {"to", "offsets"}
    assert "note" in layout.folded


def test_what_is_the_same_in_all_rows_is_said_once_above_a_narrow_table() -> None:
    rows = [row for row in PLAN if row["name"] == "shop"]

    layout = fit(rows, plan.COLUMNS, width=80)

    assert layout.common == {"name": "shop", "topic": "orders"}
    assert "name" not in layout.columns
    # The action is what one looks for, though it is the same.
    assert "action" in layout.columns


@pytest.mark.parametrize("rows", [[], PLAN[:1]], ids=["none", "one"])
def test_few_rows_have_nothing_in_common(rows: Sequence[Row]) -> None:
    assert fit(rows, plan.COLUMNS, width=40).common == {}


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(STATUS, status.COLUMNS), (VERIFY, verify.COLUMNS), (PLAN, plan.COLUMNS)],
    ids=["status", "verify", "plan"],
)
def test_no_line_is_wider_than_the_screen_and_nothing_is_cut_off(
    rows: Sequence[Row],
    columns: Sequence[str],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("mirrorlake.cli.output.PLAIN_WIDTH", width)

    print_table(rows, columns)

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert not any("…" in line for line in lines)
    assert sum("1234567" in line or "74567" in line for line in lines) == len(rows)


def test_numbers_get_separators_from_ten_thousand_on_and_null_a_dash_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirrorlake.cli.output.is_terminal", lambda: True)
    print_table([{"a": 9999, "b": 10_000, "c": None, "d": 1234.56, "e": True}], ["a", "b", "c", "d", "e"])

    assert capsys.readouterr().out.splitlines()[1].split() == ["9999", "10,000", "–", "1,234.6", "yes"]


def test_numbers_that_are_piped_are_digits_that_programs_read(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"a": 9999, "b": 10_000, "c": None, "d": 1234.56, "e": -1_234_567}], ["a", "b", "c", "d", "e"])

    assert capsys.readouterr().out.splitlines()[1].split() == ["9999", "10000", "–", "1234.6", "-1234567"]


def test_brackets_in_texts_are_shown_not_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "[red]", "topic": "t", "partition": 3, "destination": "d", "error": "[bold] no"}], ["name"])

    assert capsys.readouterr().out.splitlines() == ["NAME ", "[red]", "error [red] t-3 → d: [bold] no"]


def test_an_error_about_a_whole_topic_names_no_partition(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "m", "topic": "t", "partition": None, "destination": "d", "error": "missing"}], ["name"])

    assert "error m t → d: missing" in capsys.readouterr().out


def test_json_is_alone_on_stdout_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"topic": "Žilina", "lag": None}])

    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"topic": "Žilina", "lag": None}]
    assert "Žilina" in captured.out
    assert captured.err == ""


CELLS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(-1e6, 1e6)
    | st.text("aZ_[/]é中🙂\x07", max_size=8)
    | st.sampled_from(["parked", "running", "parked: why", "[red]"])
)


@settings(deadline=None)
@given(
    rows=st.lists(st.fixed_dictionaries({"state": CELLS, "name": CELLS, "lag_seconds": CELLS}), max_size=6),
    is_screen=st.booleans(),
)
def test_a_table_without_folds_looks_as_one_of_the_library_that_takes_a_millisecond_a_row(
    rows: Sequence[Row], *, is_screen: bool
) -> None:
    columns = ("state", "name", "lag_seconds")

    def drawn(*, by_library: bool) -> str:
        out = Console(width=300, file=io.StringIO(), force_terminal=is_screen, color_system=None, highlight=False)
        layout = fit(rows, columns, width=300, is_grouped=is_screen)
        if by_library:
            out.print(output._folding_table(rows, layout, title="", is_grouped=is_screen))
        else:
            lines = output._lines(out, rows, layout, is_grouped=is_screen)
            assert lines is not None
            print(*lines, sep="\n", file=out.file)
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    assert drawn(by_library=False) == drawn(by_library=True)


def test_a_screen_shows_states_in_colours_and_columns_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False)
    monkeypatch.setattr(output, "console", lambda: screen)

    print_table([{"state": "parked", "lag": 5}, {"state": "caught-up", "lag": 17}], ["state", "lag"])

    assert isinstance(screen.file, io.StringIO)
    assert screen.file.getvalue().splitlines() == [
        "\x1b[1mSTATE\x1b[0m      \x1b[1mLAG\x1b[0m",
        "\x1b[31mparked\x1b[0m       5",
        "\x1b[32mcaught-up\x1b[0m   17",
    ]
