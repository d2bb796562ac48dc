"""`status` says whose answer it is that comes from `service.metrics`, where it is not of the file's mirrors."""

from pathlib import Path

from mirrorlake.service.sight.listener import Listener, json_app
from mirrorlake.service.sight.live import PATH, partitions_json
from mirrorlake.service.sight.served import ServedMirror
from support.command import Ended, write_yaml
from support.command import without_spark as mirrorlake

TRADE = ServedMirror(name="trade", source=("127.0.0.1:1",), destinations={"west": ("127.0.0.1:2",)})
OTHER = ServedMirror(name="other", source=("127.0.0.1:3",), destinations={"west": ("127.0.0.1:2",)})


def status_beside(folder: Path, *served: ServedMirror) -> tuple[Ended, str]:
    """Nobody listens at these brokers; what answers at the address serves some mirrors."""
    listener = Listener({PATH: json_app(lambda: partitions_json([], now_seconds=1.0, mirrors=served))}, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.port}"
    config = write_yaml(
        folder / "mirror.yaml",
        f"""
clusters: {{east: {{bootstrap-servers: "127.0.0.1:1"}}, west: {{bootstrap-servers: "127.0.0.1:2"}}}}
mirrors:
  - name: trade
    source: {{cluster: east, topics: [orders]}}
    destinations: [{{type: kafka, cluster: west}}]
  - name: bills
    source: {{cluster: east, topics: [bills]}}
    destinations: [{{type: kafka, cluster: west}}]
service: {{metrics: "{address}"}}
""",
    )
    try:
        return mirrorlake("status", "-c", config), address
    finally:
        listener.close()


def test_another_mirrorlake_at_the_services_address_is_named(tmp_path: Path) -> None:
    ended, address = status_beside(tmp_path, OTHER)
    assert (
        "note what only a running service knows is unknown, such as partitions it parked: the mirrorlake that answers "
        f"at {address} serves other mirrors than this file has: other" in ended.out
    )


def test_a_mirror_that_the_service_does_not_serve_is_named(tmp_path: Path) -> None:
    ended, address = status_beside(tmp_path, TRADE, OTHER)
    assert f"warning the mirrorlake that answers at {address} does not serve bills" in ended.out
    assert "what only a running service knows is unknown" not in ended.out
