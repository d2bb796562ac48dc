"""Percentiles, tables and the configurations the comparison writes."""

import asyncio
from pathlib import Path

import pytest
import yaml

from bench.brokers import BenchKafka
from bench.inputs import INPUTS
from bench.latency import percentile
from bench.many_mirrors import configuration, partitions
from bench.mirrorlake_contender import kafka_configuration
from bench.results import text_table
from bench.scale_out import PinnedWorkers
from bench.watches import ArchiveWatch
from mirrorlake.config.loading import parse_configuration


@pytest.mark.parametrize(
    ("values", "percent", "wanted"),
    [
        ([1.0], 50, 1.0),
        ([3.0, 1.0, 2.0, 4.0], 50, 2.0),
        ([3.0, 1.0, 2.0, 4.0], 75, 3.0),
        ([float(n) for n in range(1, 101)], 99, 99.0),
        ([float(n) for n in range(1, 101)], 100, 100.0),
        ([1.0, 2.0, 3.0], 0, 1.0),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(values: list[float], percent: float, wanted: float) -> None:
    assert percentile(values, percent) == wanted


def test_words_stand_to_the_left_and_figures_to_the_right() -> None:
    assert text_table([("who", "MB"), ("mirrorlake", "7")], words=1) == "who         MB\nmirrorlake   7"


def test_an_input_is_repeated_by_its_records() -> None:
    assert INPUTS["k1"].repeated(5).records == 5_000_000
    assert INPUTS["k1"].repeated(5).name == "k1"


def test_every_one_of_two_hundred_mirrors_has_its_own_partition(tmp_path: Path) -> None:
    here = BenchKafka(tmp_path / "here", libs=tmp_path)
    there = BenchKafka(tmp_path / "there", libs=tmp_path)

    written = yaml.safe_load(configuration(here, there))

    assert written["destination"] == {"type": "kafka", "bootstrap-servers": [there.bootstrap_servers]}
    assert {tuple(m["source"]["bootstrap-servers"]) for m in written["mirrors"]} == {(here.bootstrap_servers,)}
    assert len({m["name"] for m in written["mirrors"]}) == 200
    assert {(m["topic"], m["partition"]) for m in written["mirrors"]} == set(partitions())
    assert len(set(partitions())) == 200


async def seen(watch: ArchiveWatch) -> tuple[int, bool]:
    copied = await watch.copied()
    return copied, watch.has_begun(copied)


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ([], (0, False)),
        (["0/.tmp-segment"], (0, True)),
        (["0/00000000000000000000-00000000000000000099.parquet", "1/_claim-00000000000000000000"], (100, True)),
        (["0/00000000000000000000-00000000000000000099.log", "0/00000000000000000100.tmp.x-y.z"], (100, True)),
        (
            [
                "0/00000000000000000000-00000000000000000099.parquet",
                "0/00000000000000000100-00000000000000000149.parquet",
                "3/00000000000000000000-00000000000000000009.parquet",
            ],
            (160, True),
        ),
    ],
)
def test_an_archive_is_seen_by_its_file_names(files: list[str], wanted: tuple[int, bool], tmp_path: Path) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()

    assert asyncio.run(seen(ArchiveWatch(tmp_path))) == wanted


def test_a_copy_over_workers_has_a_lane_for_each_and_a_configuration_that_is_read(tmp_path: Path) -> None:
    here = BenchKafka(tmp_path / "here", libs=tmp_path)
    there = BenchKafka(tmp_path / "there", libs=tmp_path)
    text = kafka_configuration(here, there, "k1") + PinnedWorkers(tmp_path, count=2, cores=2, core_share=None).engine()

    engine = parse_configuration(text.encode(), file="bench.yaml", environ={}).engine

    assert (engine.lanes, engine.batch_slots) == (2, 0)
    assert engine.master is not None
    assert engine.master.startswith("spark://127.0.0.1:")
