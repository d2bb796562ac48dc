"""How many slots a verification asks for."""

import pytest

from mirrorlake.pipeline.in_process import InProcessEngine
from mirrorlake.pipeline.settings import SessionSettings
from mirrorlake.verify.engine import verification_jobs
from unit.config.config_texts import kafka, load

CLUSTER = (
    ", master: 'spark://h:7077', spark-conf: {spark.authenticate: true, spark.authenticate.secret: {file: /run/secret},"
    " spark.network.crypto.enabled: true, spark.io.encryption.enabled: true}"
)


@pytest.mark.parametrize(("more", "slots"), [("", 3), (CLUSTER, 5)], ids=["one machine", "a cluster"])
def test_a_verification_takes_a_slot_for_each_lane_and_on_a_cluster_those_of_batch_work_too(
    more: str, slots: int
) -> None:
    config = load(kafka() + f"engine: {{lanes: 3, batch-slots: 2{more}}}\n")
    asked: list[SessionSettings] = []

    def build(settings: SessionSettings) -> InProcessEngine:
        asked.append(settings)
        return InProcessEngine(settings)

    with verification_jobs(config, build) as jobs:
        assert (asked[0].slots, jobs.slots) == (slots, slots)
