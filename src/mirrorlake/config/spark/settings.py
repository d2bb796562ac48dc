"""The settings of Spark that a configuration may hold, those it may not, and those that a cluster must have."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.config.checking import read_or_note, read_plain
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.reading import found
from mirrorlake.config.values.files import read_secret
from mirrorlake.secret import Secret

OURS: Mapping[str, str] = {
    "spark.master": "use `engine.master`",
    "spark.submit.deployMode": "the driver is always this process",
    "spark.cores.max": "it is `lanes` and `batch-slots` together",
    "spark.task.cpus": "a lease takes one slot",
    "spark.task.maxFailures": "a lease is never run twice, and its second attempt says so",
    "spark.speculation": "a lease is never run twice",
    "spark.dynamicAllocation": "leases keep every slot busy all the time",
    "spark.driver.extraJavaOptions": "use `spark.driver.defaultJavaOptions`",
    "spark.python.daemon.module": "workers fork from a parent that has loaded everything",
    "spark.python.worker.module": "workers are those of `mirrorlake.pipeline.daemon`",
    "spark.python.worker.reuse": "a worker keeps its connections between leases",
    "spark.python.use.daemon": "workers fork from a parent that has loaded everything",
    "spark.python.unix.domain.socket.enabled": "it is always on",
    "spark.executorEnv.MIRRORLAKE_WORKER_PRELOAD": "it follows from the mirrors",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "what workers fork from may have no threads",
    "spark.redaction": "it keeps secrets out of the page and the event log",
    "spark.ui": "use `engine.ui`",
    "spark.eventLog.enabled": "use `engine.event-log`",
    "spark.eventLog.dir": "use `engine.event-log`",
}
"""Settings that the engine decides, and why; one that has others below it stands for those too."""

SWITCHED_ON = (
    "spark.authenticate",
    "spark.network.crypto.enabled",
    "spark.io.encryption.enabled",
    "spark.ssl.rpc.enabled",
)
"""Settings that keep others out: nobody turns them off."""

WHY_SWITCHED_ON = "nobody but this program may reach its leases"

LOCAL_ONLY: Mapping[str, str] = {
    "spark.driver.host": "without a cluster Spark listens on loopback alone",
    "spark.driver.bindAddress": "without a cluster Spark listens on loopback alone",
}
"""Settings that have a meaning on a cluster only."""

SHARED_SECRET = "spark.authenticate.secret"
_MASTER = re.compile(r"spark://[^/\s]+:\d+(,[^/\s]+:\d+)*|k8s://\S+|yarn|local(\[[^\]]+\])?")
_LOCAL = re.compile(r"local(\[[^\]]+\])?")
_NAME = re.compile(r"spark\.[A-Za-z0-9_.\-]+")
# As Spark itself tells what it must not show (`spark.redaction.regex`); the path of a secret's file is none.
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
_NO_SECRET = re.compile(r"(?i)(\.file|\.enabled|location|filepath)$")
_REMEDY = "see docs/cluster.md"


@dataclass(slots=True)
class SparkSettings:
    """What a configuration says to Spark: ``plain`` may be shown, ``secrets`` may not."""

    plain: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Secret] = field(default_factory=dict)


def is_local(master: str | None) -> bool:
    """Returns whether tasks run on this machine, below the driver's own JVM."""
    return master is None or _LOCAL.fullmatch(master) is not None


def is_secret(name: str) -> bool:
    """Returns whether a setting's value must never be shown."""
    return _SECRET.search(name) is not None and _NO_SECRET.search(name) is None


def read_spark_conf(given: Mapping[str, Tree], document: Document) -> SparkSettings:
    """Returns ``engine.spark-conf``; notes what the engine decides, what cannot be read, and secrets in clear."""
    read = SparkSettings()
    for name, value in given.items():
        path = ("engine", "spark-conf", name)
        if isinstance(value, UnsetText):
            continue
        if (refused := refusal(name)) is not None:
            document.note(path, *refused)
        elif is_secret(name):
            secret = read_or_note(read_secret, value, document.place(path), document.problems)
            if secret is not None:
                read.secrets[name] = secret
        elif (text := read_plain(value, path, document)) is not None:
            if (kept := as_kept(name, text)) is None:
                document.note(path, f"expected true, found {found(value)}", WHY_SWITCHED_ON)
            else:
                read.plain[name] = kept
    return read


def refusal(name: str) -> tuple[str, str] | None:
    """Returns what is wrong with a setting whatever its value, and why; None where it may be set."""
    for ours, reason in OURS.items():
        if name == ours or name.startswith(f"{ours}."):
            return "cannot be set", reason
    return None if _NAME.fullmatch(name) else ("is not a setting of Spark's", "their names begin with `spark.`")


def as_kept(name: str, value: str) -> str | None:
    """Returns the value of a setting as it is kept, None where it turns off what keeps others out."""
    if name not in SWITCHED_ON:
        return value
    return "true" if value.lower() == "true" else None


def check_engine(master: str | None, lanes: int | None, read: SparkSettings, document: Document) -> None:
    """Notes what a cluster of Spark's needs and the file does not say, and what one machine has no use for."""
    if master is not None and not _MASTER.fullmatch(master):
        expected = "expected `spark://host:port`, `k8s://…`, `yarn` or `local[n]`"
        document.note(("engine", "master"), expected)
        return
    if is_local(master):
        for name, reason in LOCAL_ONLY.items():
            if name in read.plain:
                document.note(("engine", "spark-conf", name), "cannot be set", reason)
        return
    assert master is not None
    if lanes is None:
        document.note(
            ("engine", "lanes"),
            "is required with a `master` that is not this machine",
            "it says how many slots of the cluster are taken, with `batch-slots`",
        )
    for missing, why in _missing(master, read):
        document.note(("engine", "spark-conf"), f"a cluster needs `{missing}`: {why}", _REMEDY)


def _missing(master: str, read: SparkSettings) -> list[tuple[str, str]]:
    """Returns the settings without which others could read or run what they like, and why each is needed."""
    missing = []
    if read.plain.get("spark.authenticate") != "true":
        missing.append(("spark.authenticate: true", "else everybody who reaches its ports can run code"))
    if master.startswith("spark://") and SHARED_SECRET not in read.secrets:
        missing.append((f"{SHARED_SECRET}: {{file: /path}}", "a secret that master, workers and this process share"))
    if "true" not in (read.plain.get("spark.network.crypto.enabled"), read.plain.get("spark.ssl.rpc.enabled")):
        either = "spark.network.crypto.enabled: true` or `spark.ssl.rpc.enabled: true"
        missing.append((either, "plans with passwords travel to the executors"))
    if read.plain.get("spark.io.encryption.enabled") != "true":
        missing.append(("spark.io.encryption.enabled: true", "what executors put on their disks is readable else"))
    return missing
