"""What a query's session is built from."""

import threading
from pathlib import Path

import pytest

from mirrorlake.cli.sql import query_settings
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.spark_source.sql import prepare

CONFIGURATION = """
clusters:
  east:
    bootstrap-servers: "east:9092"
    properties: {{security.protocol: SSL, ssl.truststore.location: /etc/east.pem}}
  west:
    bootstrap-servers: "west:9092"
    properties: {{security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: me, sasl.password: "${{WEST}}"}}
stores:
  lake: {{type: filesystem, root: {root}}}
  attic: {{type: filesystem, root: {root}/attic}}
engine: {engine}
mirrors:
  - name: m
    source: {{cluster: east, topics: [t]}}
    destinations: [{{type: archive, store: lake}}]
"""
ON_A_CLUSTER = """
  lanes: 3
  master: "spark://spark:7077"
  start-timeout: 7s
  ui: 4040
  event-log: {root}
  spark-conf:
    spark.authenticate: "true"
    spark.authenticate.secret: {{file: /run/secrets/spark}}
    spark.network.crypto.enabled: "true"
    spark.io.encryption.enabled: "true"
    spark.executor.memory: 2g
"""


def config(root: Path, engine: str) -> Configuration:
    text = CONFIGURATION.format(root=root, engine=engine.format(root=root))
    return parse_configuration(text.encode(), file="c.yaml", environ={"WEST": "hunter2"})


def test_on_a_cluster_executors_are_waited_for_and_looked_at_for_what_the_query_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEST", "hunter2")
    settings = config(tmp_path, ON_A_CLUSTER)
    stopping = threading.Event()

    found = query_settings(
        settings,
        prepare(settings, "select 1 from attic.t, west.t, attic.x"),
        is_stopping=stopping.is_set,
    )

    assert found.cluster_timeout_seconds == 7.0
    assert found.start_timeout_seconds > 60, "of the JVM, which is on this machine"
    assert [root.path for root in found.needs.roots] == [str(tmp_path / "attic")]
    assert found.needs.files == ()
    assert found.needs.variables == (), "they come with the reader"
    assert (found.lanes, found.event_log, found.ui_port) == (3, tmp_path, None)
    assert dict(found.spark_conf)["spark.executor.memory"] == "2g"
    stopping.set()
    assert found.is_stopping()
    east = query_settings(settings, prepare(settings, "select 1 from east.t"), is_stopping=bool)
    assert east.needs.files == ("/etc/east.pem",)


def test_on_one_machine_nothing_is_looked_at(tmp_path: Path) -> None:
    settings = config(tmp_path, "{{lanes: 1}}")

    found = query_settings(settings, prepare(settings, "select 1 from lake.t"), is_stopping=bool)

    assert (found.needs.roots, found.lanes, found.app_name) == ((), 1, "mirrorlake sql")
