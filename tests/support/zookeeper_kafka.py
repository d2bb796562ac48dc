"""One Kafka broker of the time before KRaft, with the ZooKeeper it needs, as two subprocesses in a folder."""

import socket
import time

from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.embedded.kafka_server import EmbeddedKafka
from mirrorlake.errors import ServerUnusableError

_HOST = "127.0.0.1"
_ZOOKEEPER_HEAP_MB = 64
_START_TIMEOUT_SECONDS = 60.0  # under a second on an idle machine
_STOP_TIMEOUT_SECONDS = 10.0
_PROBE_PAUSE_SECONDS = 0.05
# What a single node has in KRaft only; ZooKeeper's brokers warn about names they do not know.
_KRAFT_ONLY = (
    "process.roles",
    "node.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "metadata.max.idle.interval.ms",
)


class ZooKeeperKafka(EmbeddedKafka):
    """A broker of Kafka 2.4 to 3.9 and its ZooKeeper; else as `EmbeddedKafka`, of the jars of such a version.

    ZooKeeper's data lie in ``zookeeper/`` beside the broker's, its words in ``zookeeper.log``. Both start and end
    together; `pause` and `resume` mean the broker alone. ZooKeeper remembers a broker that was killed for six more
    seconds of its own running time and lets no other in; a start within them fails.
    """

    _zookeeper: GuardedProcess | None = None

    def stop(self, *, timeout_seconds: float = _STOP_TIMEOUT_SECONDS) -> None:
        """Ends the broker in good order, then its ZooKeeper."""
        super().stop(timeout_seconds=timeout_seconds)
        if self._zookeeper is not None:
            self._zookeeper.stop(timeout_seconds=timeout_seconds)
            self._zookeeper = None

    def kill(self) -> None:
        """Ends both at once (SIGKILL)."""
        super().kill()
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper = None

    def _prepare(self, java: str) -> None:
        main_class = "org.apache.zookeeper.server.ZooKeeperServerMain"
        arguments = (str(self._controller_port), str((self.folder / "zookeeper").absolute()))
        command = self._java_command(java, main_class, *arguments, heap_mb=_ZOOKEEPER_HEAP_MB)
        command.insert(1, "-Dzookeeper.admin.enableServer=false")  # it would take port 8080
        self._zookeeper = GuardedProcess(command, log_path=self.folder / "zookeeper.log")
        try:
            self._wait_for_zookeeper(self._zookeeper)
        except BaseException:
            self.kill()
            raise

    def _wait_for_zookeeper(self, process: GuardedProcess) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and process.exit_code is None:
            with socket.socket() as probe:
                if probe.connect_ex((_HOST, self._controller_port)) == 0:
                    return
            time.sleep(_PROBE_PAUSE_SECONDS)
        raise ServerUnusableError(
            f"the ZooKeeper of the embedded Kafka in {self.folder} does not serve",
            hint=f"{self.folder / 'zookeeper.log'} says why",
            port=self._controller_port,
        )

    def _properties(self) -> dict[str, str]:
        merged = super()._properties()
        here = {
            "broker.id": "1",
            "zookeeper.connect": f"{_HOST}:{self._controller_port}",
            "zookeeper.session.timeout.ms": "6000",  # the least ZooKeeper grants by default
            "controlled.shutdown.enable": "false",  # a single node has nobody to hand its partitions to
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        }
        return {name: value for name, value in merged.items() if name not in _KRAFT_ONLY} | here | self._own_properties
