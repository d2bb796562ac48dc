"""What an archive holds beside its segments after a run: its markers, and nothing else."""

import re
from collections.abc import Sequence


def without_markers(keys: Sequence[str], root: str) -> list[str]:
    """Returns the keys below ROOT that are no markers, after checking that all markers of their topics are there."""
    names = [key.removeprefix(f"{root}/") for key in keys]
    plain = [name for name in names if not any(part.startswith("_") for part in name.split("/"))]
    markers = {re.sub(r"_topic\.[0-9]+\.json$", "_topic.json", name) for name in names if name not in plain}
    topics = {name.partition("/")[0] for name in plain}
    assert markers == {
        "_mirrorlake.json",
        *(f"_mirrorlake/topics/{topic}" for topic in topics),
        *(f"{topic}/_topic.json" for topic in topics),
    }
    return [f"{root}/{name}" for name in plain]
