"""Where a machine cannot hold workers to a share of a core, the benchmark says so and what it needs."""

from pathlib import Path

import pytest

from bench import core_share
from bench.core_share import CoreShare


def test_a_machine_without_control_groups_is_an_error_that_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_share, "_CPU", tmp_path / "nowhere")
    share = CoreShare(0.2)
    with pytest.raises(RuntimeError, match=r"--core-share needs root and cgroup v1 at .*/nowhere"), share:
        pass


def test_a_process_is_in_the_group_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_share, "_CPU", tmp_path)
    command = CoreShare(0.2).command("java", "-cp", "a b")

    assert command[:2] == ("sh", "-c")
    assert command[2].endswith('/cgroup.procs && exec "$@"')
    assert command[3:] == ("sh", "java", "-cp", "a b")
