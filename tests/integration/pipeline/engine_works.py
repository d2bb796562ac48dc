"""What leases of these tests do, in the Python workers. Plans are JSON or nothing."""

import json
import os
import pickle
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

Row = dict[str, object]


def answer(plan: bytes) -> list[Row]:
    return [{"kind": "ok", "plan": plan}]


def strange_values(plan: bytes) -> list[Row]:
    return [
        {"kind": "ok", "bytes": b"\x00\xff", "none": None, "big": 2**80, "nested": {"a": [1, ("x",)]}},
        {"kind": "other", "text": "ünï\0code", "bytes": 7},
        {},
    ]


def many_rows(plan: bytes) -> Iterator[Row]:
    for number in range(20_000):
        yield {"kind": "ok", "number": number, "filler": "x" * 50}


def rows_then_error(plan: bytes) -> Iterator[Row]:
    yield {"kind": "ok", "shard": 1}
    yield {"kind": "ok", "shard": 2}
    raise ValueError("shard 3 broke")


def exit_python(plan: bytes) -> list[Row]:
    raise SystemExit(3)


def unpicklable_row(plan: bytes) -> list[Row]:
    return [{"kind": "ok", "function": lambda: None}]


def environment(plan: bytes) -> list[Row]:
    import gc
    import sys

    return [
        {
            "kind": "ok",
            "frozen_objects": gc.get_freeze_count(),
            "numpy": "numpy" in sys.modules,
            "pyarrow": "pyarrow" in sys.modules,
            "fractions": "fractions" in sys.modules,
            "tmp": os.environ.get("SPARK_LOCAL_DIRS"),
            "executable": sys.executable,
            "parent_pid": os.getppid(),
        }
    ]


def files_with_the_plan(plan: bytes) -> list[Row]:
    """Looks, while the lease runs, for files in the folder named in the plan that hold what follows in the plan."""
    folder, _, content = plan.partition(b"\n")
    files = [path for path in Path(os.fsdecode(folder)).rglob("*") if path.is_file()]
    return [{"kind": "ok", "files": [str(path) for path in files if content[:20] in path.read_bytes()]}]


def password_of_the_plan(plan: bytes) -> list[Row]:
    return [{"kind": "ok", "password": pickle.loads(plan)["password"].reveal()}]


def count_partitions(plan: bytes) -> list[Row]:
    return [{"kind": "ok", "partitions": len(pickle.loads(plan).partitions)}]


def note_pid_and_sleep(plan: bytes) -> list[Row]:
    """Writes this worker's process id to a file, then is busy for a while, or until a file appears."""
    wanted = json.loads(plan)
    note = Path(wanted["note"])
    partial = note.with_name(note.name + f".{os.getpid()}")
    partial.write_text(str(os.getpid()))
    partial.replace(note)
    give_up_at = time.monotonic() + wanted["seconds"]
    while time.monotonic() < give_up_at and not Path(wanted.get("until", "/nowhere")).exists():
        time.sleep(0.02)
    return [{"kind": "ok", "note": wanted["note"]}]


def wait_in(plan: bytes) -> list[Row]:
    """Makes a file in a folder, named after this host and process, and waits for one that is named `until`."""
    folder = Path(plan.decode())
    (folder / f"{socket.gethostname()} {os.getpid()}").touch()
    while not (folder / "until").exists():
        time.sleep(0.02)
    return [{"kind": "ok"}]


def sleep_for_ever(plan: bytes) -> list[Row]:
    while True:
        time.sleep(1000)


def hang_in_native_code(plan: bytes) -> list[Row]:
    # Takes some 2**60 steps with the interpreter's lock held throughout: no Python thread could intervene.
    re.match(r"(a+)+$", "a" * 60 + "b")
    return []


def make_link(plan: bytes) -> list[Row]:
    """Gives a folder another name on this host."""
    wanted = json.loads(plan)
    Path(wanted["link"]).parent.mkdir(parents=True, exist_ok=True)
    Path(wanted["link"]).symlink_to(wanted["to"])
    return []
