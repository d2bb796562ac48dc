"""``python -m soak``: see `soak.run`. Needs Go once, to build toxiproxy, and javac."""

import argparse
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from mirrorlake.embedded.jars import KAFKA_VERSION, kafka_libs
from mirrorlake.java import find_java
from soak.run import Orders, Run, is_good
from soak.sites import Site
from support.tiered_kafka import NoCompilerError
from support.toxiproxy import VERSION, Toxiproxy, ToxiproxyUnusableError, toxiproxy_server

RESULTS = Path(__file__).parents[2] / "bench" / "results"
BROKER = {"log.cleaner.backoff.ms": "1000"}


def main() -> int:
    """Returns 0 where everything came out right, 1 where not, 2 where it could not be run."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the same one gives the same course")
    parser.add_argument("--minutes", type=float, default=20.0, help="all pauses between faults together (default: 20)")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--network-faults", type=int, default=200)
    parser.add_argument("--source-brokers", type=int, default=1)
    parser.add_argument("--destination-brokers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for logs and data, kept (default: a temporary one)")
    parser.add_argument("--result", type=Path, help="where the figures go (default: bench/results/soak-….json)")
    asked = parser.parse_args()
    for name in ("aiokafka", "kafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # brokers that are away are no news here
    try:
        program = toxiproxy_server()
    except ToxiproxyUnusableError as error:
        print(error, file=sys.stderr)
        return 2
    orders = Orders(seed=asked.seed, minutes=asked.minutes, kills=asked.kills, network_faults=asked.network_faults)
    print(f"seed {orders.seed}: {orders.kills} kills, {orders.network_faults} network faults", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        brokers = {"east": asked.source_brokers, "west": asked.destination_brokers}
        try:
            figures = _run(orders, folder, program, brokers)
        except NoCompilerError as error:
            print(error, file=sys.stderr)
            return 2
    figures = {
        "at": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        "commit": _git("rev-parse", "HEAD"),
        "is_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "machine": _machine(),
        "kafka": KAFKA_VERSION,
        "toxiproxy": VERSION,
        "brokers": brokers,
        "is_good": is_good(figures),
        **figures,
    }
    path = asked.result or RESULTS / f"soak-{figures['at']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    names = ("records", "lost", "duplicated", "fillers_seen", "kills_total", "network_faults_total", "minutes")
    print("  ".join(f"{name} {figures[name]}" for name in names))
    print(f"{'good' if figures['is_good'] else 'NOT GOOD'}: {path}")
    return 0 if figures["is_good"] else 1


def _run(orders: Orders, folder: Path, program: Path, brokers: dict[str, int]) -> dict[str, Any]:
    with Toxiproxy(folder, program) as toxiproxy:
        sites: list[Site] = []
        try:
            for name, count in brokers.items():
                sites.append(
                    Site(
                        name,
                        folder / name,
                        libs=kafka_libs(),
                        toxiproxy=toxiproxy,
                        count=count,
                        properties=BROKER,
                        has_tier=name == "east",
                    )
                )
                sites[-1].nodes.start()
            source, destination = sites
            return Run(orders, source, destination, folder).work()
        finally:
            for site in sites:
                site.close()


def _git(*arguments: str) -> str:
    asked = subprocess.run(["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def _machine() -> dict[str, Any]:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "java": find_java().version,
    }


if __name__ == "__main__":
    sys.exit(main())
