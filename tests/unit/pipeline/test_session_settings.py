import shlex
from pathlib import Path

from mirrorlake.pipeline.settings import SessionSettings, spark_conf

FOLDER = Path("/tmp/mirrorlake-0-abc")


def test_the_master_has_a_slot_per_lane_and_batch_slot_and_repeats_tasks() -> None:
    assert spark_conf(SessionSettings(lanes=3, batch_slots=2), FOLDER, ())["spark.master"] == "local[5,4]"


def test_a_given_master_is_taken_and_not_bound_to_loopback() -> None:
    conf = spark_conf(SessionSettings(lanes=1, master="spark://host:7077"), FOLDER, ())
    assert conf["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in conf


def test_sockets_and_temporary_files_lie_in_the_short_folder() -> None:
    conf = spark_conf(SessionSettings(lanes=1), FOLDER, ())
    assert conf["spark.python.unix.domain.socket.enabled"] == "true"
    assert conf["spark.python.unix.domain.socket.dir"] == "/tmp/mirrorlake-0-abc"
    assert "-Djava.io.tmpdir=/tmp/mirrorlake-0-abc" in conf["spark.driver.extraJavaOptions"]


def test_jvm_options_with_spaces_stay_one_option_each() -> None:
    option = "-XX:SharedArchiveFile=/home/a user/x.jsa"
    options = spark_conf(SessionSettings(lanes=1), FOLDER, (option,))["spark.driver.extraJavaOptions"]
    assert shlex.split(options)[0] == option


def test_spark_settings_of_the_user_win() -> None:
    settings = SessionSettings(lanes=1, spark_conf={"spark.ui.enabled": "true"})
    assert spark_conf(settings, FOLDER, ())["spark.ui.enabled"] == "true"


def test_nobody_turns_authentication_off() -> None:
    settings = SessionSettings(lanes=1, spark_conf={"spark.authenticate": "false"})
    assert spark_conf(settings, FOLDER, ())["spark.authenticate"] == "true"


def test_what_leaves_the_machine_is_encrypted() -> None:
    refused = {"spark.network.crypto.enabled": "false"}
    settings = SessionSettings(lanes=1, master="spark://host:7077", spark_conf=refused)
    conf = spark_conf(settings, FOLDER, ())
    assert conf["spark.authenticate"] == "true"
    assert conf["spark.network.crypto.enabled"] == "true"
    assert conf["spark.io.encryption.enabled"] == "true"
    assert "spark.network.crypto.enabled" not in spark_conf(SessionSettings(lanes=1), FOLDER, ())


def test_the_logging_file_is_part_of_the_package() -> None:
    options = shlex.split(spark_conf(SessionSettings(lanes=1), FOLDER, ())["spark.driver.extraJavaOptions"])
    (logging,) = [option for option in options if "log4j2" in option]
    assert Path(logging.removeprefix("-Dlog4j2.configurationFile=file://")).read_text().startswith("# Logging")
