"""Workers with namespaces of their own must see the package that they are to run."""

from pathlib import Path

from support.spark_cluster import hidden_from_workers


def test_what_lies_below_tmp_is_hidden_from_workers_also_behind_a_link(tmp_path: Path) -> None:
    below, elsewhere = Path("/tmp/checkout/src/mirrorlake"), Path("/usr/lib/python3")
    link = tmp_path / "link"
    link.symlink_to("/tmp/checkout")
    assert hidden_from_workers([below, elsewhere, link, Path("/tmpfs")]) == [below, link]
