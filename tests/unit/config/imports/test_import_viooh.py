"""viooh-mirror's configuration becomes one of ours."""

import pytest

from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.imports.draft import ImportRefusedError
from mirrorlake.config.imports.reading import Imported, Program, import_configuration
from mirrorlake.config.imports.viooh import NO_EQUAL, TAKEN
from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.sources.source import KafkaSource

FILE = """
{:server {:port 9090}
 :groups
 [{:group-id-prefix "prod"
   :mirror-mode :lenient
   :poll-interval 10000
   :source {:kafka {:bootstrap.servers "oslo:9092" :auto.offset.reset "earliest" :max.poll.records "500"}
            :schema-registry-url "http://oslo:8081"
            :schema-registry-configs {:basic.auth.user.info "me:hunter2"}}
   :destination {:kafka {:bootstrap.servers "rome:9092" :security.protocol "SASL_SSL"
                         :sasl.mechanism "PLAIN" :sasl.jaas.config "hunter2"}
                 :schema-registry-url "http://rome:8081"}
   :mirrors
   [{:source {:topic {:topic-name "orders"}}
     :destination {:topic {:topic-name "orders-copy" :partition-count 7}
                   :force-subject-compatibility-level "NONE"}
     :consumer-group-id "mine"
     :serdes [:string :avro]}
    {:name "raw"
     :enabled false
     :mirror-mode :strict
     :source {:topic {:topic-name "raw"} :kafka {:auto.offset.reset "latest"}}
     :destination {:topic {:topic-name "raw"}}
     :serdes [:string :string]}]}
  {:source {:kafka {:bootstrap.servers "paris:9092"} :schema-registry-url "http://paris:8081"}
   :destination {:kafka {:bootstrap.servers "rome:9092" :security.protocol "SASL_SSL"
                         :sasl.mechanism "PLAIN" :sasl.jaas.config "hunter2"}
                 :schema-registry-url "http://rome:8081"}
   :topics-mirroring {:replication-factor {:type :mirror-source :min 1 :max 3}}
   :mirrors
   [{:source {:topic {:topic-name "events"}}
     :destination {:topic {:topic-name "events"}}
     :value-subject-name-strategy "io.confluent.kafka.serializers.subject.RecordNameStrategy"
     :serdes [:avro :avro]}]}]
 :topics-mirroring {:auto-create-topics true
                    :replication-factor {:type :fix :value 3}
                    :partition-count {:type :mirror-source :min 3 :max 12}}}
"""
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'
ENVIRON = {"DESTINATION_SASL_JAAS_CONFIG": JAAS}


def imported(text: str = FILE) -> Imported:
    return import_configuration(text.encode(), Program.VIOOH, file="viooh.edn")


def remarks(result: Imported) -> list[str]:
    return [line.removeprefix("#   ") for line in result.text.splitlines() if line.startswith("#   ")]


def test_groups_become_mirrors_with_all_that_holds_for_each() -> None:
    result = imported()

    assert result.problems == ()
    body = result.text[result.text.index("clusters:") :]
    assert (
        body
        == """clusters:
  source:
    bootstrap-servers: "oslo:9092"
  destination:
    bootstrap-servers: "rome:9092"
    properties:
      security.protocol: "SASL_SSL"
      sasl.mechanism: PLAIN
      sasl.jaas.config: "${DESTINATION_SASL_JAAS_CONFIG}"
  source-2:
    bootstrap-servers: "paris:9092"
registries:
  source: {url: "http://oslo:8081"}
  destination: {url: "http://rome:8081"}
  source-2: {url: "http://paris:8081"}
mirrors:
  - name: "prod__orders__orders-copy"
    source:
      cluster: source
      topics: [orders]
    destinations:
      - type: kafka
        cluster: destination
        topic: orders-copy
        offsets: map  # as there: other offsets than at the source; an exact map is kept
        create-topics: {partitions: {fixed: 7}, replication: {fixed: 3}}
    schemas: {from: source, to: destination, mode: lenient, compatibility: NONE, key: none, value: topic-name}
  - name: "prod__raw"
    enabled: false
    source:
      cluster: source
      topics: [raw]
      start: latest
    destinations:
      - type: kafka
        cluster: destination
        topic: raw
        offsets: map  # as there: other offsets than at the source; an exact map is kept
        create-topics: {partitions: {mirror-source: {min: 3, max: 12}}, replication: {fixed: 3}}
  - name: "events__events"
    source:
      cluster: source-2
      topics: [events]
    destinations:
      - type: kafka
        cluster: destination
        topic: events
        offsets: map  # as there: other offsets than at the source; an exact map is kept
        create-topics: {partitions: {mirror-source: {min: 3, max: 12}}, replication: {mirror-source: {min: 1, max: 3}}}
    schemas: {from: source-2, to: destination, mode: strict, key: topic-name, value: record-name}
"""
    )


def test_the_output_loads_and_means_the_same() -> None:
    configuration = parse_configuration(imported().text.encode(), file="out", environ=ENVIRON)

    orders, raw, events = configuration.mirrors
    assert isinstance(orders.source, KafkaSource)
    assert isinstance(orders.destinations[0], KafkaDestination)
    assert [mirror.is_enabled for mirror in (orders, raw, events)] == [True, False, True]
    assert orders.destinations[0].name_for("orders") == "orders-copy"


def test_what_has_no_equal_is_remarked_with_its_line_and_no_secret_is_written() -> None:
    result = imported()

    assert "hunter2" not in result.text
    assert remarks(result) == [
        "line 2, server.port: use `service.metrics`, which serves `/healthz` too",
        "line 6, groups[0].poll-interval: reading does not wait by this setting",
        "line 7, groups[0].source.kafka.max.poll.records: this client property is not available in this version: "
        "leave it out",
        "line 9, groups[0].source.schema-registry-configs.basic.auth.user.info: set it at the registry: `username` and "
        "`password`, `token`, or `ca-file`, `certificate` and `key`",
        "line 11, groups[0].destination.kafka.sasl.jaas.config: secrets are not copied: set the environment variable "
        "DESTINATION_SASL_JAAS_CONFIG",
        "line 17, groups[0].mirrors[0].consumer-group-id: positions come from the destination: begin where it stood "
        "with `start: {offsets: …}`",
        "line 34, groups[1].mirrors[0].serdes: schemas of keys were put under the subject of values there; here each "
        "has its own subject",
    ]


@pytest.mark.parametrize(
    ("old", "new", "remark"),
    [
        (":enabled false", ":enabeld false", "groups[0].mirrors[1].enabeld: unknown to viooh-mirror: did you mean"),
        (":replication-factor {:type :fix :value 3}", ":replication-factor {:type :fix :val 3}", "its default was"),
        ("subject.RecordNameStrategy", "subject.TopicRecordNameStrategy", "a strategy that is none of the program's"),
        (":partition-count 7", ':topic-config {"retention.ms" "1"}', "write it as `sync.override`"),
        (':name "raw"', ":subject-naming-strategy :topic-name", "it has no effect there either"),
        (":server {:port 9090}", ":mulog {:type :console}", "events are lines of the log on stderr"),
    ],
)
def test_a_setting_that_is_not_taken_has_its_remark(old: str, new: str, remark: str) -> None:
    assert old in FILE
    result = imported(FILE.replace(old, new, 1))
    assert any(remark in line for line in remarks(result)), remarks(result)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{:mirrors []}", "there is no list `:groups`"),
        ("[1 2]", "there is no list `:groups`"),
        ("{:groups {}}", ":groups is no list"),
        ("{:groups [1]}", r"groups\[0\] is no mapping"),
        ("{:groups [{:mirrors 1}]}", r"groups\[0\] :mirrors is no list"),
        ("{:groups [{}]}", r"groups\[0\] :mirrors is no list"),
        ("{:groups [{:mirrors [1]}]}", "a mirror is no mapping"),
        ("{:groups [", "does not end"),
    ],
)
def test_what_is_no_configuration_of_the_program_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ImportRefusedError, match=reason):
        imported(text)


def test_a_file_without_topics_and_brokers_says_what_to_write() -> None:
    result = imported("{:groups [{:mirrors [{:serdes [:string :avro]}]}]}")
    assert any("the file does not name its brokers" in line for line in remarks(result))
    assert any("the file does not name this registry" in line for line in remarks(result))
    assert any("topics: names no topic" in problem for problem in result.problems)


def test_every_known_key_stands_in_one_table() -> None:
    assert not TAKEN.keys() & NO_EQUAL.keys()
