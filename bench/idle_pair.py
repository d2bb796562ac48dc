"""Two versions of mirrorlake have nothing to do at the same moment, and what that costs: ``python -m bench.idle_pair``.

What disturbs one of two idle processes on a machine disturbs the other as much; one after the other, the same code was
seen to cost from 1 to 9 % of a core. The one that began first may have what is shared to pay: compare both orders.
"""

import argparse
import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from bench.brokers import BenchKafka, create_topics
from bench.idle import (
    PARTITIONS_PER_TOPIC,
    QUIET_ENDS,
    TOPICS,
    await_ends,
    configuration,
    consumer_of,
    send_one_to_each,
    sleep_beside,
)
from bench.mirrorlake_contender import start_mirrorlake
from bench.process_tree import ProcessTree
from bench.results import text_table
from bench.storage import choose_place
from mirrorlake.embedded.jars import kafka_libs

HERE = Path(__file__).parents[1] / "src"
_STOP_SECONDS = 60.0
_STORED_BYTES = 1 << 30


def main() -> None:
    """Prints the CPU of all processes of each version, round by round."""
    parser = argparse.ArgumentParser(prog="python -m bench.idle_pair", description=__doc__)
    parser.add_argument("versions", type=Path, nargs="*", help="folders src of checkouts, in the order of their start")
    parser.add_argument("--settle-seconds", type=float, default=60.0, help="how long nothing is measured at first")
    parser.add_argument("--seconds", type=float, default=60.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    versions = arguments.versions or [HERE, HERE]
    for version in versions:
        if not (version / "mirrorlake").is_dir():
            parser.error(f"{version} has no folder mirrorlake: name the folder src of a checkout")
    asyncio.run(_measure([version.resolve() for version in versions], arguments))


async def _measure(versions: list[Path], arguments: argparse.Namespace) -> None:
    place = choose_place(_STORED_BYTES, wanted=None)
    topics = dict.fromkeys(TOPICS, PARTITIONS_PER_TOPIC)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirrorlake-idle-", dir=place.folder)))
        source = stack.enter_context(BenchKafka(folder / "source", libs=kafka_libs()))
        await create_topics(source, topics)
        await send_one_to_each(source)
        trees: list[ProcessTree] = []
        for number, version in enumerate(versions):
            destination = stack.enter_context(BenchKafka(folder / f"destination-{number}", libs=kafka_libs()))
            await create_topics(destination, topics)
            (own := folder / f"version-{number}").mkdir()
            process = start_mirrorlake(configuration(source, destination), own, package_folder=version)
            stack.callback(process.stop, timeout_seconds=_STOP_SECONDS)
            ends = await consumer_of(destination, stack)
            await await_ends(ends, QUIET_ENDS)
            trees.append(ProcessTree(process.pid))
        await sleep_beside(trees, arguments.settle_seconds)
        for number in range(arguments.rounds):
            began, before = time.perf_counter(), [tree.use().cpu_seconds for tree in trees]
            await sleep_beside(trees, arguments.seconds)
            took = time.perf_counter() - began
            found = [100 * (tree.use().cpu_seconds - each) / took for tree, each in zip(trees, before, strict=True)]
            rows = [
                (str(number + 1), str(version), f"{percent:.2f}", f"{percent / found[0]:.2f}")
                for version, percent in zip(versions, found, strict=True)
            ]
            print(text_table([("round", "version", "CPU % of a core", "× the first"), *rows], words=2), flush=True)


if __name__ == "__main__":
    main()
