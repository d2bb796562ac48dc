"""Options of a read: what they mean, and the error that names the one that is wrong; no secret may stand in one."""

from pathlib import Path

import pytest

from mirrorlake.errors import ConfigurationError
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import TopicPartition
from mirrorlake.spark_source.options import read_options
from mirrorlake.spark_source.request import Bound
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, S3Settings

LAKE = {"store": "file:///var/lake", "topics": "orders"}
LIVE = {"kafka.bootstrap.servers": "a:9092,b:9093", "topics": "orders"}
SECRET = "hunter2"


def test_stores_are_addresses_with_settings_by_the_names_of_the_configuration() -> None:
    assert read_options(LAKE).store == FilesystemSettings(root=Path("/var/lake"))
    bucket = read_options({"store": "s3://b/deep/er", "store.region": "eu-1", "topics": "x"}, {})
    assert bucket.store == S3Settings(bucket="b", prefix="deep/er", region="eu-1")
    azure = read_options({"store": "azure://account/container/p", "topics": "x"}, {})
    assert azure.store == AzureSettings(account="account", container="container", prefix="p")


def test_clusters_have_kafkas_own_properties_and_secrets_by_reference(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET)
    login = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "me"}

    for reference in ("${PASSWORD}", f"file:{file}", f"file://{file}"):
        cluster = read_options({**LIVE, **login, "kafka.sasl.password": reference}, {"PASSWORD": SECRET}).cluster
        assert isinstance(cluster, ClusterSettings)
        assert cluster.bootstrap_servers == ("a:9092", "b:9093")
        assert cluster.security.sasl is not None
        assert cluster.security.sasl.password is not None
        assert cluster.security.sasl.password.reveal() == SECRET


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({**LIVE, "kafka.sasl.password": SECRET}, "sasl.password"),
        ({**LIVE, "kafka.sasl.jaas.config": SECRET}, "sasl.jaas.config"),
        (
            {"store": "s3://b", "store.region": "r", "store.secret-access-key": SECRET, "topics": "x"},
            "secret-access-key",
        ),
        ({"store": f"s3://user:{SECRET}@b/c", "topics": "x"}, "store"),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_repeated(options: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as error:
        read_options(options, {})
    assert SECRET not in str(error.value)


def test_names_of_a_configuration_file_are_looked_up(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(
        "clusters: {east: {bootstrap-servers: 'a:1'}}\nstores: {lake: {type: filesystem, root: /var/lake}}\n"
        "mirrors: [{name: m, source: {cluster: east, topics: [t]}, destinations: [{type: archive, store: lake}]}]\n"
    )
    options = {"config": str(file), "topics": "orders"}

    assert read_options({**options, "store": "lake"}, {}).store == FilesystemSettings(root=Path("/var/lake"))
    assert read_options({**options, "cluster": "east"}, {}).cluster.name == "east"
    with pytest.raises(ConfigurationError, match="has no store 'lak'"):
        read_options({**options, "store": "lak"}, {})


def test_topics_are_names_and_expressions_in_which_commas_may_stand() -> None:
    found = read_options({**LAKE, "topics": "orders, /audit-[a,b]{1,2}/ ,x,orders"})

    assert (found.names, found.patterns) == (("orders", "x"), ("audit-[a,b]{1,2}",))


def test_bounds_are_words_offsets_or_times() -> None:
    assert read_options(LIVE).starting == Bound(word="earliest")
    given = read_options(
        {**LIVE, "startingOffsets": '{"orders": {"0": 5, "1": -1}}', "endingTimestamp": "1970-01-01T00:00:01"}
    )
    assert given.starting.offsets == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -1}
    assert given.ending.timestamp_ms == 1000


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"stor": "x"}, "did you mean `store`"),
        ({"topics": " , "}, "topics is missing"),
        ({"topics": "/(/"}, "no expression"),
        ({"columns": "offset,valeu"}, "no column 'valeu'"),
        ({"columns": "offset,offset"}, "name each once"),
        ({"startingOffsets": "5"}, "startingOffsets"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets"),
        ({"startingTimestamp": "1"}, "of live Kafka"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"readTimeout": "0s"}, "the option readTimeout is not a time above zero such as 10m"),
        ({"readTimeout": "600"}, "the option readTimeout is not a time above zero such as 10m"),
        ({"snapshots": "yes"}, "snapshots"),
        ({"cluster": "east"}, "told twice"),
        ({"config": "x.yaml"}, "says nothing beside store"),
        ({"store": "ftp://x"}, "unknown kind"),
        ({"store": "lake"}, "no configuration says"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(more: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_options({**LAKE, **more}, {})
    assert told in str(error.value)


def test_where_to_read_must_be_told() -> None:
    with pytest.raises(ConfigurationError, match="told nowhere"):
        read_options({"topics": "orders"})
