"""What stands at the root in both forms: the engine, the listeners, and what parking means to all."""

from mirrorlake.config import section as fields
from mirrorlake.config.process_settings import OnPark
from mirrorlake.config.section import Section, lasting, option, sized


class EngineForm(Section):
    """How much of the machine is used."""

    lanes: fields.LaneCount | None = option(
        None, "Leases that run at the same time, at most.", note="the number of cores"
    )
    lease_seconds: fields.LeaseTime = lasting(
        "5s",
        "Longest time one lease runs; four times that where it copies to Kafka only, on this machine.",
        key="lease",
    )
    discovery_seconds: fields.DiscoveryTime = lasting(
        "30s", "How often sources are asked for new topics and partitions, and for recreated topics.", key="discovery"
    )
    tail_check_seconds: fields.TailCheckTime = lasting(
        "60s", "How often the last segment of each archived partition is looked at, by one listing.", key="tail-check"
    )
    stop_seconds: fields.StopTime = lasting(
        "60s", "How long a graceful stop may take before it gives up on what does not end.", key="stop-timeout"
    )
    memory_bytes: fields.MemorySize = sized("2GiB", "Memory for data in flight, of all lanes.", key="memory")
    largest_batch_bytes: fields.BatchSize = sized(
        "512MiB",
        "Bytes that one record batch may decompress to; a larger one parks its partition as `batch-too-large`.",
        key="largest-batch",
    )
    batch_slots: fields.SlotCount = option(
        1, "Slots kept beside `lanes` for batch work, such as merges that `run` does."
    )
    master: fields.Text | None = option(
        None,
        "Spark master: `spark://host:port`, `k8s://…` or `yarn`, with `lanes` and what [a cluster needs](cluster.md) "
        "in `spark-conf`; left out, one machine.",
    )
    spark_conf: fields.SparkConf = option({}, "Further settings under Spark's own names, see below.")
    start_timeout_seconds: fields.StartTime = lasting(
        "60s", "How long the start waits for a cluster's master and executors before it gives up.", key="start-timeout"
    )
    ui_port: fields.UiPort = option(
        None,
        "Port of Spark's own page, on loopback, while `run` serves: jobs by mirror and lane, executors, settings.",
        shown="off",
        key="ui",
    )
    event_log: fields.LogFolder | None = option(
        None,
        "Folder for Spark's event logs, which its history server reads; it must exist, nothing is removed from it.",
    )


class ServiceForm(Section):
    """The listeners of `run`, and its heartbeat in the log."""

    metrics: fields.Listen = option(
        None,
        "Where `/metrics`, `/healthz` and `/readyz` are served. In the mirror-v3 form the default is "
        "`0.0.0.0:9090`, its port changed by `MIRROR_V3_METRICS_PORT`.",
        shown="off",
    )
    control: fields.Listen = option(None, "Not available in this version: `off` is the only value.", shown="off")
    heartbeat: fields.Heartbeat = lasting("30s", "Time between heartbeat lines in the log.")


class CommonForm(Section):
    """What stands at the root in both forms."""

    engine: EngineForm = option(EngineForm(), "How much of the machine is used.", note="see below")
    service: ServiceForm = option(ServiceForm(), "Listeners.", note="see below")
    on_park: OnPark | None = option(
        None,
        "When a partition is parked: `continue` with the others, or `exit` with code 3 at the first one.",
        note="`continue`; in the mirror-v3 form `exit`",
    )
