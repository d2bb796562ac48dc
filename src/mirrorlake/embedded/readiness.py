"""Asks a broker whether it serves, with three requests written by hand, so that nothing else is needed.

Only versions are used that every broker from 2.0 up to the newest answers. Source of the layouts: Kafka's
protocol guide.
"""

import socket
import struct

_METADATA, _FIND_COORDINATOR, _END_TXN = 3, 10, 26
_TRANSACTION_KEY = 1  # FindCoordinator's key type for transactional ids
_ANSWER_BYTES_MAX = 1 << 20
# Names that differ in one digit have successive Java hash codes, so ten of them meet every partition of a
# __transaction_state that has ten or fewer; ours has four.
_PROBE_IDS = 10
_INVALID_PRODUCER_ID_MAPPING = 49


class NotReadyError(Exception):
    """The broker does not serve yet; the text says how far it came."""


def check_ready(host: str, port: int, *, cluster_id: str, timeout_seconds: float) -> None:
    """Returns when the broker answers and its transaction coordinator has loaded every partition.

    Changes nothing on the broker but that ``__transaction_state`` is created where it is missing. Idempotent.

    Args:
        host: where it listens.
        port: where it listens.
        cluster_id: whose broker it must be; another one may have been faster at taking the port.
        timeout_seconds: for the connection and for each of the answers.

    Raises:
        NotReadyError: it does not, or not yet, or is another cluster's.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            _check_identity(connection, cluster_id)
            _check_coordinator_is_known(connection)
            _check_coordinator_is_loaded(connection)
    except OSError as cause:
        raise NotReadyError(f"no answer on {host}:{port}: {cause}") from cause
    except (struct.error, IndexError) as cause:
        raise NotReadyError(f"an answer on {host}:{port} that is not Kafka's: {cause}") from cause


def _check_identity(connection: socket.socket, cluster_id: str) -> None:
    answer = _ask(connection, _METADATA, version=2, body=struct.pack(">i", 0))  # of no topic
    # Brokers, then the cluster id; as its text is long and random, finding it anywhere is enough.
    if _string(cluster_id) not in answer:
        raise NotReadyError(f"the broker that answers does not belong to cluster {cluster_id}")


def _check_coordinator_is_known(connection: socket.socket) -> None:
    body = _string("mirrorlake-probe") + struct.pack(">b", _TRANSACTION_KEY)
    answer = _ask(connection, _FIND_COORDINATOR, version=1, body=body)
    _throttle_ms, error_code = struct.unpack_from(">ih", answer, 0)
    if error_code != 0:
        raise NotReadyError(f"FindCoordinator for transactions answered error {error_code}")


def _check_coordinator_is_loaded(connection: socket.socket) -> None:
    # There is no transaction of an id that nobody used, which a coordinator says once that id's partition is
    # loaded: a question that leaves no trace, and that brokers too old for DescribeTransactions answer.
    for number in range(_PROBE_IDS):
        body = _string(f"mirrorlake-probe-{number}") + struct.pack(">qh?", 0, 0, False)
        answer = _ask(connection, _END_TXN, version=1, body=body)
        _throttle_ms, error_code = struct.unpack_from(">ih", answer, 0)
        if error_code != _INVALID_PRODUCER_ID_MAPPING:
            raise NotReadyError(f"the transaction coordinator answered error {error_code}")


def _ask(connection: socket.socket, api: int, *, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api, version, 7) + _string("mirrorlake-probe") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (answer_bytes,) = struct.unpack(">i", _receive(connection, 4))
    if not 4 <= answer_bytes <= _ANSWER_BYTES_MAX:
        raise NotReadyError(f"a frame of {answer_bytes} bytes, which is not Kafka's")
    return _receive(connection, answer_bytes)[4:]


def _receive(connection: socket.socket, wanted_bytes: int) -> bytes:
    received = bytearray()
    while len(received) < wanted_bytes:
        chunk = connection.recv(wanted_bytes - len(received))
        if not chunk:
            raise NotReadyError("the connection was closed instead of an answer")
        received += chunk
    return bytes(received)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
