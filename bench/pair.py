"""Two versions of mirrorlake, or two of its modes, copy the same topic at the same moment: ``python -m bench.pair``.

On a machine that others use too, figures of runs one after the other differ by a tenth and more for the same code. What
disturbs one of two copies that go on together disturbs the other as much: their ratio stays within some hundredths.
"""

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from bench.brokers import BenchKafka, create_topics
from bench.contender import Measured, measure
from bench.inputs import INPUTS, Filled, Input, fill
from bench.mirrorlake_contender import Mirrorlake, MirrorlakeMap
from bench.results import text_table
from bench.storage import bytes_of, choose_place
from mirrorlake.embedded.jars import kafka_libs

HERE = Path(__file__).parents[1] / "src"
MODES: dict[str, type[Mirrorlake]] = {"preserve": Mirrorlake, "map": MirrorlakeMap}


def main() -> None:
    """Measures the other version and this one, round by round, and prints the CPU time of both and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m bench.pair", description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", default=HERE, help="the folder src of the other version")
    parser.add_argument("--input", choices=[*INPUTS], default="k1")
    parser.add_argument("--times", type=int, default=4, help="how often the input is repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--offsets", choices=[*MODES], default="preserve")
    parser.add_argument("--other-offsets", choices=[*MODES], default="preserve")
    arguments = parser.parse_args()
    if not (arguments.other / "mirrorlake").is_dir():
        parser.error(f"{arguments.other} has no folder mirrorlake: name the folder src of a checkout")
    asyncio.run(_measure_rounds(arguments))


async def _measure_rounds(arguments: argparse.Namespace) -> None:
    wanted = INPUTS[arguments.input].repeated(arguments.times)
    versions = (
        MODES[arguments.other_offsets](package_folder=arguments.other.resolve()),
        MODES[arguments.offsets](package_folder=HERE),
    )
    place = choose_place(bytes_of(wanted, versions[0].kind, copies=len(versions)), wanted=None)
    ratios: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="mirrorlake-pair-", dir=place.folder) as name,
        BenchKafka(Path(name, "source"), libs=kafka_libs()) as source,
    ):
        await create_topics(source, {wanted.name: wanted.partitions})
        filled = await asyncio.to_thread(fill, source.port, wanted)
        for number in range(arguments.rounds):
            with tempfile.TemporaryDirectory(dir=name) as round_folder:
                other, ours = await _measure_both(versions, source, wanted, filled, Path(round_folder))
            ratios.append(_seconds_per_gigabyte(ours) / _seconds_per_gigabyte(other))
            print(_table(number, other, ours, ratios[-1]), flush=True)
    print(f"\nCPU-seconds per byte of this one, × the other's, in the median: {median(ratios):.3f}")


async def _measure_both(
    versions: tuple[Mirrorlake, Mirrorlake], source: BenchKafka, wanted: Input, filled: Filled, folder: Path
) -> tuple[Measured, Measured]:
    new_broker = partial(BenchKafka, libs=kafka_libs(), forgets=True)
    with new_broker(folder / "other-kafka") as for_other, new_broker(folder / "own-kafka") as for_own:
        for server in (for_other, for_own):
            await create_topics(server, {wanted.name: wanted.partitions})
        runs = []
        for version, server, name in zip(versions, (for_other, for_own), ("other", "own"), strict=True):
            (folder / name).mkdir()
            runs.append(
                measure(version, source=source, destination=server, wanted=wanted, filled=filled, folder=folder / name)
            )
        other, ours = await asyncio.gather(*runs)
        return other, ours


def _seconds_per_gigabyte(run: Measured) -> float:
    return 1e3 / run.megabytes_per_cpu_second


def _table(number: int, other: Measured, ours: Measured, ratio: float) -> str:
    rows = [("round", "version", "copy s", "CPU s/GB", "× CPU")]
    for name, run, figure in (("other", other, ""), ("this", ours, f"{ratio:.3f}")):
        seconds = _seconds_per_gigabyte(run)
        rows.append((str(number + 1), name, f"{run.copy_wall_seconds:.1f}", f"{seconds:.3f}", figure))
    return text_table(rows, words=2)


if __name__ == "__main__":
    main()
