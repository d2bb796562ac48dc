"""A run with security on both sides copies every record, and its secrets stay where they belong."""

import base64
import contextlib
import time
from pathlib import Path

import psutil
import pytest

from support.command import without_spark as mirrorlake
from support.command import write_yaml
from support.copies import assert_same_records
from support.records import consume, simple_records
from support.secured_kafka import PASSWORD, PLAIN_USER, SecuredKafka
from support.service_process import ServiceProcess
from support.token_endpoint import CLIENT, CLIENT_SECRET, SCOPE
from support.topics import make_topic

KEY_PASSWORD = "open+sesame"
RECORDS = 500


def configuration(kafka: SecuredKafka, topic: str, folder: Path) -> str:
    own = kafka.client_certificate
    locked = folder / "client.pem"
    locked.write_text(own.key_pem(KEY_PASSWORD) + own.certificate_pem)
    (folder / "client-secret").write_text(CLIENT_SECRET + "\n")
    return f"""
clusters:
  east:
    bootstrap-servers: "{kafka.servers("MUTUAL")}"
    properties:
      security.protocol: SSL
      ssl.truststore.location: {kafka.authority.file}
      ssl.keystore.location: {locked}
      ssl.key.password: ${{KEY_PASSWORD}}
  west:
    bootstrap-servers: "{kafka.servers("SASL")}"
    properties:
      security.protocol: SASL_SSL
      ssl.truststore.location: {kafka.authority.file}
      sasl.mechanism: OAUTHBEARER
      sasl.oauthbearer.token.endpoint.url: {kafka.tokens.url}
      sasl.oauthbearer.client.credentials.client.id: {CLIENT}
      sasl.oauthbearer.client.credentials.client.secret: {{file: {folder / "client-secret"}}}
      sasl.oauthbearer.scope: {SCOPE}
  again:
    bootstrap-servers: "{kafka.servers("CLEAR")}"
    properties:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: PLAIN
      sasl.jaas.config: ${{JAAS}}
mirrors:
  - name: {topic}
    source: {{cluster: east, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "{{topic}}-copy"}}]
  - name: {topic}-again
    source: {{cluster: again, topics: [{topic}]}}
    destinations: [{{type: kafka, cluster: west, topic: "{{topic}}-again"}}]
engine: {{lanes: 1, memory: 512MiB}}
service: {{metrics: off}}
"""


def command_lines(service: ServiceProcess) -> set[str]:
    """What ``ps`` shows of every process of the service now."""
    found = set()
    for process in service.processes():
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found.add(" ".join(process.cmdline()))
    return found


@pytest.mark.slow
def test_a_run_with_security_on_both_sides_copies_everything_and_shows_no_secret(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path
) -> None:
    topic, servers = f"secured-{topic_name[-8:]}", secured_kafka.bootstrap_servers
    make_topic(servers, topic, simple_records(RECORDS), batch_records=50)
    config = write_yaml(tmp_path / "mirror.yaml", configuration(secured_kafka, topic, tmp_path))
    events = tmp_path / "events"
    events.mkdir()
    spark = tmp_path / "spark"
    spark.mkdir()
    # What Spark's page would show is what its event log holds; both are off unless somebody turns them on.
    (spark / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {events.as_uri()}\n"
    )
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required "
    jaas += 'username="{}" password="{}";'.format(PLAIN_USER, PASSWORD.replace("\\", "\\\\"))
    environ = {
        "KEY_PASSWORD": KEY_PASSWORD,
        "JAAS": jaas,
        "SPARK_CONF_DIR": str(spark),
        "MIRRORLAKE_LOG_LEVEL": "debug",
    }

    shown = []
    with ServiceProcess("run", "--once", "-c", str(config), folder=tmp_path, environ=environ) as service:
        commands: set[str] = set()
        while service.is_running:
            commands |= command_lines(service)
            time.sleep(0.2)
        assert service.exit_code() == 0, service.said()
        shown += [service.said(), *commands]
    assert any("SparkSubmit" in command for command in commands)
    logged = [file.read_text(errors="replace") for file in events.rglob("*") if file.is_file()]
    assert "SparkListenerJobEnd" in "".join(logged)
    shown += logged
    status = mirrorlake("status", "-c", config, environ=environ)
    assert status.code == 0, status.err
    shown += [status.out, status.err]

    source = consume(servers, topic, 0)
    assert len(source) == RECORDS
    assert_same_records(source, consume(servers, f"{topic}-copy", 0))
    assert_same_records(source, consume(servers, f"{topic}-again", 0))
    for secret in (KEY_PASSWORD, CLIENT_SECRET, PASSWORD, "PRIVATE KEY", f"{CLIENT}:{CLIENT_SECRET}"):
        forms = (secret, secret.replace("\\", "\\\\"), base64.b64encode(secret.encode()).decode())
        assert not [text for text in shown for form in forms if form in text]


def test_a_wrong_password_is_said_with_cluster_broker_and_remedy_and_is_not_shown(
    secured_kafka: SecuredKafka, topic_name: str, tmp_path: Path
) -> None:
    east = secured_kafka.servers("CLEAR")
    config = write_yaml(
        tmp_path / "mirror.yaml",
        f"""
clusters:
  east:
    bootstrap-servers: "{east}"
    properties:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: nobody
      sasl.password: ${{WRONG}}
  west: {{bootstrap-servers: "{secured_kafka.bootstrap_servers}"}}
mirrors:
  - {{name: m, source: {{cluster: east, topics: [{topic_name}]}}, destinations: [{{type: kafka, cluster: west}}]}}
""",
    )

    ended = mirrorlake("plan", "-c", config, environ={"WRONG": "not-this-one"})

    said = ended.out + ended.err
    assert f"{east} of cluster 'east' refuses the SCRAM-SHA-512 login" in " ".join(said.split())
    assert "check username and password" in " ".join(said.split())
    assert "not-this-one" not in said
