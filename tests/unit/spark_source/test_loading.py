"""What each of Spark's processes loads: they start one after the other while somebody waits for a query."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "pydantic", "yaml", "kafka", "pandas")
"""A second of CPU together; what reads Parquet files needs none of them."""


@pytest.mark.parametrize("module", ["source", "archive_plan", "archive_reading", "counting", "request", "columns"])
def test_what_plans_and_reads_an_archive_loads_no_more_than_it_needs(module: str) -> None:
    code = f"import sys, mirrorlake.spark_source.{module}\nprint(*[name for name in {HEAVY} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
