"""MirrorMaker 2 as a process, in its dedicated mode, from Kafka's own jars."""

from pathlib import Path

from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import QUICK_START_JVM_FLAGS
from mirrorlake.java import find_java

STOP_SECONDS_MAX = 60.0

# One broker on each side, and only the copying.
_SMALL = """replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
emit.heartbeats.enabled = false
emit.checkpoints.enabled = false
sync.topic.acls.enabled = false
tasks.max = 2
"""


class MirrorMaker:
    """Copies ``topics`` from the cluster called ``source`` to ``west``.

    Args:
        folder: for its file, ``mm2.properties``, and its log.
        libs: see `mirrorlake.embedded.jars.mirror_maker_libs`.
        source: the source's alias: its topics at the destination have it, so let no other test have the same.
        servers: of the source and the destination.
        topics: a name, or an expression.
        settings: more lines of its file.
    """

    def __init__(
        self, folder: Path, libs: Path, *, source: str, servers: tuple[str, str], topics: str, settings: str = ""
    ) -> None:
        self.file = folder / "mm2.properties"
        self.offsets_topic = f"mm2-offsets.{source}.internal"
        self._log = folder / "mm2.log"
        self._libs = libs
        self.file.write_text(
            f"clusters = {source}, west\n{source}.bootstrap.servers = {servers[0]}\n"
            f"west.bootstrap.servers = {servers[1]}\n{source}->west.enabled = true\n{source}->west.topics = {topics}\n"
            f"{_SMALL}{settings}"
        )

    def start(self) -> GuardedProcess:
        """Starts it anew; it is to be stopped or killed."""
        flags = (*QUICK_START_JVM_FLAGS, "-Xmx512M", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        name = "org.apache.kafka.connect.mirror.MirrorMaker"
        command = [str(find_java().executable), *flags, "-cp", f"{self._libs}/*", name, str(self.file)]
        return GuardedProcess(command, log_path=self._log)

    def log(self) -> str:
        """The end of what it has said so far."""
        return self._log.read_text(errors="replace")[-4000:]
