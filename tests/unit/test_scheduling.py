"""Files that share servers run on one worker, and are there."""

import re
from pathlib import Path

import pytest

from support.scheduling import TOGETHER

TESTS = Path(__file__).parents[1]
FIXTURES = {
    "three brokers": r"\bkafka_nodes: KafkaNodes",
    "a secured broker": r"\bsecured_kafka: SecuredKafka",
    "a schema registry": r"\bapicurio: Apicurio",
    "old brokers": r"\bkafka_(2_8|3_9): EmbeddedKafka",
}


@pytest.mark.parametrize("what", TOGETHER)
def test_every_file_that_asks_for_what_is_shared_is_named(what: str) -> None:
    folders = [TESTS / name for name in ("contract", "fault", "integration", "system", "unit")]
    files = [path for folder in folders for path in folder.rglob("test_*.py") if path != Path(__file__)]
    asking = {f"tests/{path.relative_to(TESTS)}" for path in files if re.search(FIXTURES[what], path.read_text())}
    assert asking <= set(TOGETHER[what])
    assert all((TESTS.parent / file).is_file() for file in TOGETHER[what])
