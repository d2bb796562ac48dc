"""Which tests one worker of pytest-xdist runs: those of a file, and of files that share what few others ask for."""

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

TOGETHER: dict[str, tuple[str, ...]] = {
    "three brokers": (
        "tests/fault/test_broker_faults.py",
        "tests/fault/test_exactly_once_attacks.py",
        "tests/fault/test_gap_attacks.py",
        "tests/fault/test_letter_leaders.py",
        "tests/fault/test_source_divergence.py",
        "tests/fault/test_state_topic.py",
        "tests/integration/kafka/control/test_groups.py",
    ),
    "a secured broker": (
        "tests/integration/kafka/test_secured_connection.py",
        "tests/integration/topics/test_acl_acts.py",
        "tests/integration/mirror/test_secured_lease.py",
        "tests/integration/service/test_access_rules.py",
        "tests/integration/service/test_letter_rights.py",
        "tests/integration/service/test_group_archive.py",
        "tests/integration/service/test_heartbeat_rights.py",
        "tests/system/test_cli_acls.py",
        "tests/system/test_cli_secured.py",
        "tests/system/test_cli_topics.py",
    ),
    "a schema registry": (
        "tests/integration/schemas/test_apicurio.py",
        "tests/system/test_cli_schemas.py",
        "tests/system/test_stock_deserializer.py",
    ),
    "old brokers": (
        "tests/integration/versions/test_destinations.py",
        "tests/integration/versions/test_old_formats_with_schemas.py",
        "tests/integration/versions/test_old_message_formats.py",
        "tests/integration/versions/test_sources.py",
    ),
}
"""Files by what they share: it is then started by one worker, and not by each."""

_SHARED = {file: what for what, files in TOGETHER.items() for file in files}


class SharedServerScheduling(LoadFileScheduling):  # type: ignore[misc]
    """As `LoadFileScheduling`, and with the files of `TOGETHER` as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _SHARED.get(file, file)
