"""Runs the quickstart's examples of reading an archive; as a script, one of them beside a live writer, as JSON.

doc_examples.py NAME ROOT READS GROWTHS
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/quickstart.md"
ROOT_SHOWN = "/var/lib/mirrorlake"


def examples() -> dict[str, str]:
    """Returns the code of each example, by the name of the library before it."""
    section = PAGE.read_text(encoding="utf-8").partition("## Read an archive")[2]
    return dict(re.findall(r"^(\w+):\n\n```python\n(.*?)```", section, re.MULTILINE | re.DOTALL))


def read(code: str, root: Path) -> list[tuple[int, int]]:
    """Runs an example on the archive in ROOT; returns partitions and offsets of its table, in order."""
    assert ROOT_SHOWN in code
    names: dict[str, Any] = {}
    exec(code.replace(ROOT_SHOWN, str(root)), names)
    table = names["table"]
    assert table.column_names == ["partition", "offset", "timestamp_ms", "key", "value"]
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def read_beside_a_writer(code: str, root: Path, *, reads: int, growths: int) -> Sequence[str]:
    """Reads again and again, until so often more was found than before; returns what was wrong with any read."""
    wrong: list[str] = []
    seen: list[tuple[int, int]] = []
    while reads > 0 or growths > 0:
        found = read(code, root)
        if len(found) != len(set(found)):
            wrong.append(f"an offset twice: {found}")
        if found[: len(seen)] != seen:
            wrong.append(f"{found} after {seen}")
        reads -= 1
        growths -= len(found) > len(seen)
        seen = found
    return wrong


if __name__ == "__main__":
    name, root, reads, growths = sys.argv[1:]
    print(json.dumps(read_beside_a_writer(examples()[name], Path(root), reads=int(reads), growths=int(growths))))
