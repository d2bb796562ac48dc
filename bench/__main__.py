"""Runs the comparison: per input and contender two fresh brokers, filled, copied, measured."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from bench import results
from bench.contender import Contender, Measured, measure
from bench.inputs import INPUTS, Input, fill
from bench.mirror_maker import MirrorMaker
from bench.mirrorlake_contender import Mirrorlake, MirrorlakeArchive
from mirrorlake.embedded.jars import kafka_libs
from mirrorlake.embedded.kafka_server import EmbeddedKafka

CONTENDERS: dict[str, Callable[[], Contender]] = {
    "mm2": MirrorMaker,
    "mirrorlake": Mirrorlake,
    "mirrorlake-archive": MirrorlakeArchive,
}
BROKER_HEAP_MB = 1024
# Room for everything an input holds without a roll in the middle of a small run.
BROKER_PROPERTIES = {"log.segment.bytes": str(512 << 20)}


def main() -> None:
    """Measures what the command line names, prints a table and writes the results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--input", action="append", choices=[*INPUTS], help="again for more; all by default")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="again for more; all by default")
    parser.add_argument("--records", type=int, help="instead of the input's own number, for a quick look")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured")
    arguments = parser.parse_args()
    # As Ctrl-C does: the brokers are stopped and their folders removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    measured: list[Measured] = []
    for name in arguments.input or INPUTS:
        wanted = INPUTS[name]
        if arguments.records:
            wanted = replace(wanted, records=arguments.records)
        for contender in arguments.contender or CONTENDERS:
            for _round in range(arguments.rounds):
                measured.append(asyncio.run(_run(CONTENDERS[contender](), wanted)))
                print(results.table(measured[-1:]), flush=True)
    print(f"\n{results.table(measured)}\n\nwritten to {results.write(measured)}")


async def _run(contender: Contender, wanted: Input) -> Measured:
    libs = kafka_libs()
    with tempfile.TemporaryDirectory(prefix="mirrorlake-bench-") as name:
        folder = Path(name)
        new_broker = partial(EmbeddedKafka, libs=libs, heap_mb=BROKER_HEAP_MB, properties=BROKER_PROPERTIES)
        own = folder / "contender"
        own.mkdir()
        with (
            new_broker(folder / "source") as source,
            new_broker(folder / "destination") as destination,
        ):
            # Made on both sides, so that the watcher has something to ask for and nobody is charged for it.
            for server in (source, destination):
                await _create_topic(server, wanted)
            filled = await asyncio.to_thread(fill, source.port, wanted)
            return await measure(
                contender, source=source, destination=destination, wanted=wanted, filled=filled, folder=own
            )


async def _create_topic(server: EmbeddedKafka, wanted: Input) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(wanted.name, wanted.partitions, 1)])
    finally:
        await admin.close()


if __name__ == "__main__":
    main()
