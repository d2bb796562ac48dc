"""The class-data archive of the embedded broker: made once, and then used."""

from pathlib import Path

import pytest

from mirrorlake.embedded.broker_archive import make_archive
from mirrorlake.embedded.kafka_server import EmbeddedKafka

pytestmark = pytest.mark.slow


@pytest.mark.kafka
def test_an_archive_is_made_once_and_then_used(
    kafka_libs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "cache"))
    archive = make_archive(kafka_libs)
    assert archive is not None
    assert archive.parent == tmp_path / "cache" / "class-archive"
    assert set(archive.parent.iterdir()) == {archive, archive.with_suffix(".for")}
    made_at = archive.stat().st_mtime_ns
    assert make_archive(kafka_libs) == archive
    assert archive.stat().st_mtime_ns == made_at

    with EmbeddedKafka(tmp_path / "kafka", libs=kafka_libs) as broker:
        assert str(archive) in Path(f"/proc/{broker.pid}/maps").read_text()
    with EmbeddedKafka(tmp_path / "other", libs=kafka_libs, jvm_flags=("-XX:+UseG1GC",)) as broker:
        assert str(archive) not in Path(f"/proc/{broker.pid}/maps").read_text(), "it is made for other flags"
