"""What it means that a connection broke, brought senseless bytes, or leads to a broker that lacks an API. Pure."""

from mirrorlake.errors import (
    BrokerUnreachableError,
    CorruptBatchError,
    MirrorlakeError,
    NotKafkaError,
    UnsupportedError,
)
from mirrorlake.kafka.wire.apis import FLEXIBLE_SINCE, OLDEST_KAFKA, SINCE, Api
from mirrorlake.kafka.wire.handshake import describe_peer, hint_about_peer
from mirrorlake.kafka.wire.settings import ClusterSettings


def unsupported_error(address: str, api: int, wanted: str, known: tuple[int, int] | None) -> UnsupportedError:
    """Returns the error of an API of which the broker knows no version that is wanted.

    Args:
        address: the broker's.
        api: its key.
        wanted: the versions, in words.
        known: lowest and highest version it knows; None where it does not know the API.
    """
    title = Api(api).title if api in FLEXIBLE_SINCE else f"API {api}"
    has = f"only knows versions {known[0]} to {known[1]}" if known else "does not know it"
    return UnsupportedError(
        f"{title} version {wanted} is needed, and the broker at {address} {has}",
        hint=f"Apache Kafka {SINCE.get(api, OLDEST_KAFKA)} or newer is needed",
        address=address,
        api=title,
    )


def garbled_error(address: str, what: str, start: bytes, *, is_greeted: bool) -> MirrorlakeError:
    """Returns the error of senseless bytes: no broker, before the handshake, corruption after it.

    Args:
        address: the peer's.
        what: is wrong with them.
        start: the first of them.
        is_greeted: whether the peer has shown that it speaks Kafka.
    """
    if not is_greeted:
        return NotKafkaError(
            f"{address} does not speak the Kafka protocol: {describe_peer(start)}",
            hint=hint_about_peer(start),
            address=address,
        )
    return CorruptBatchError(
        f"the bytes of {address} could not be understood: {what}",
        hint="a proxy in between, or a batch above the largest frame accepted",
        address=address,
    )


def lost_error(
    address: str,
    settings: ClusterSettings,
    error: OSError | None,
    *,
    is_greeted: bool,
    is_first_request: bool,
    is_session_over: bool = False,
) -> BrokerUnreachableError:
    """Returns the error of a connection that broke.

    Args:
        address: the peer's.
        settings: of the cluster.
        error: what the socket says; None where the peer has closed it.
        is_greeted: whether the peer has shown that it speaks Kafka.
        is_first_request: whether the first request after ApiVersions waits for its answer.
        is_session_over: whether the session of the last login has ended, by our clock.
    """
    hint = ""
    if error is not None:
        what = error.strerror or type(error).__name__
    elif not is_greeted:
        what = "closed by the peer before it answered, as a stopping broker or a TLS listener does"
    else:
        what = "closed by the peer"
    if not is_greeted:
        protocol = settings.security.protocol
        # A broker that stops, or a line that is cut, looks the same once; a wrong protocol does each time.
        hint = f"security.protocol is {protocol}: where this comes again, compare it with the broker's listeners" + (
            "; one that requires a client certificate may do so too: see ssl.keystore.location"
            if protocol.is_encrypted
            else ""
        )
    elif settings.security.sasl is None and is_first_request:
        what += " at the first request, as a listener that requires SASL does"
        hint = "compare security.protocol and sasl.mechanism with the broker's listeners"
    elif is_session_over:
        # Requests sent in time that the broker reads after the end; it says nothing (``Processor`` in SocketServer).
        what += " after the end of the session, as brokers do that read a request too late"
        hint = "broker or client is very busy, or sessions are very short: see connections.max.reauth.ms, token expiry"
    return BrokerUnreachableError(
        f"connection to {address} of cluster {settings.name!r} lost: {what}",
        hint=hint,
        cluster=settings.name,
        address=address,
    )
