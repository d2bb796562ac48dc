"""Who owns a mirror at a Kafka cluster: the newest process that asked.

The owner calls InitProducerId on the mirror's own transactional id, which raises that id's epoch, and writes a
state record in a transaction of that epoch. Whoever held the mirror before sees an epoch that is not its own and
ends. The data needs no such protection (see ``preserve.sink``); this ends the older process instead of letting
two of them race for ever.

Renewing costs no write: DescribeTransactions tells the current epoch of all mirrors of a coordinator at once.

An epoch that is not ours has another cause too: a coordinator that waited for the end of our transaction for longer
than its time-out (a broker that hung, a process that was frozen) aborts it and raises the epoch by one, as the first
step of somebody else's InitProducerId does while our transaction is open (``TransactionCoordinator`` of Kafka,
``prepareFenceProducerEpoch``). Which it was shows when one looks again: the somebody else has raised it further, or
began a transaction, or died before it could own anything.
"""

from dataclasses import replace

from mirrorlake.clock import Clock
from mirrorlake.destinations.transactions.owner_states import (
    STATE_FORMAT,
    STATE_PARTITION,
    STATE_TOPIC,
    TRANSACTION_TIMEOUT_MS,
    OwnerState,
    encode_state_batch,
    transactional_id,
)
from mirrorlake.destinations.transactions.session import TransactionSession
from mirrorlake.errors import (
    BrokerNotReadyError,
    MirrorlakeError,
    PositionMovedError,
    SupersededError,
    UnsupportedError,
)
from mirrorlake.kafka.control.cluster import ClusterClient
from mirrorlake.kafka.control.descriptions import ProducerIdentity, TransactionState
from mirrorlake.kafka.wire.error_codes import INVALID_PRODUCER_ID_MAPPING

_ABORTED = frozenset({"PrepareEpochFence", "PrepareAbort", "CompleteAbort"})
"""States of a transaction that its time-out ended, or is ending."""


class Ownership:
    """One mirror's ownership at one destination cluster.

    Args:
        client: of the destination cluster.
        mirror: the mirror's name.
        owner: how this process calls itself, for the one that is superseded.
        clock: dates the state record.
    """

    def __init__(self, client: ClusterClient, *, mirror: str, owner: str, clock: Clock) -> None:
        self._client = client
        self._mirror = mirror
        self._owner = owner
        self._clock = clock
        self._session = TransactionSession(client, transactional_id(mirror), timeout_ms=TRANSACTION_TIMEOUT_MS)
        self._identity: ProducerIdentity | None = None
        self._state: OwnerState | None = None
        self._next_sequence = 0
        self._is_settled = True
        self._taken_at_ms: int | None = None
        self._doubted: ProducerIdentity | None = None

    @property
    def mirror(self) -> str:
        """The mirror's name."""
        return self._mirror

    @property
    def is_held(self) -> bool:
        """True from a successful ``take`` on, until superseded, or until that is in doubt."""
        return self._identity is not None

    @property
    def state(self) -> OwnerState | None:
        """What this process wrote last; None where nothing was, or where that is not known to have happened."""
        return self._state

    def wrote(self, state: OwnerState) -> bool:
        """True for a state record that this process wrote; after a restart another one may have its name."""
        return (state.owner, state.taken_at_ms) == (self._owner, self._taken_at_ms)

    async def take(self, state: OwnerState) -> OwnerState:
        """Becomes the owner and writes the state record, with owner and time filled in; returns what it wrote.

        Order of effects: InitProducerId (the owner before is superseded from here on), AddPartitionsToTxn, the
        record, EndTxn, its marker; what is known after each is said in ``session``. A crash in between leaves a
        transaction that ends by itself after ten seconds. Until all of it is done nothing is held, whatever was: where
        it fails, the epoch that the coordinator then names may be our own.

        Raises:
            SupersededError: another process took it over while this one was writing.
            MirrorlakeError: the cluster could not do it; nothing is owned.
        """
        if self._doubted is not None:
            await self._check_nobody_came(self._doubted)
        # From here on an epoch of the coordinator's that is not known may be our own, whose answer was lost.
        self._identity = self._state = self._doubted = None
        identity = await self._session.own()
        self._next_sequence = 0
        written = await self._write(identity, state)
        self._identity = identity
        return written

    async def update(self, state: OwnerState) -> OwnerState:
        """Writes the record anew, as the owner this process is; returns what it wrote.

        After an error nothing is known of the record before: the next update looks whether another process has come
        since, and begins with InitProducerId where none has.

        Raises:
            SupersededError: another process took the mirror over.
            MirrorlakeError: the cluster could not do it; ask again.
        """
        if self._identity is not None and self._is_settled:
            return await self._write(self._identity, state)
        self._doubted = self._identity or self._doubted
        return await self.take(state)

    async def _write(self, identity: ProducerIdentity, state: OwnerState) -> OwnerState:
        now_ms = int(self._clock.now_seconds() * 1000)
        self._taken_at_ms = self._taken_at_ms or now_ms
        state = replace(
            state,
            mirror=self._mirror,
            owner=self._owner,
            taken_at_ms=self._taken_at_ms,
            written_at_ms=now_ms,
            format_version=STATE_FORMAT,
        )
        self._is_settled = False
        try:
            await self._session.add_all([STATE_PARTITION])
            batch = encode_state_batch(state, identity, sequence=self._next_sequence)
            await self._session.produce(STATE_PARTITION, batch, what=f"append to {STATE_TOPIC}")
            await self._session.end(committed=True)
            await self._await_marker()
        except PositionMovedError as fenced:
            raise await self._why_fenced(identity) from fenced
        self._is_settled = True
        self._next_sequence += 1
        self._state = state
        return state

    async def _await_marker(self) -> None:
        """Returns when the record can be read; one whose marker never comes would hold up every reader for ever."""
        try:
            forgotten = await self._session.until_closed([STATE_PARTITION])
        except UnsupportedError:  # before Kafka 2.8, which cannot be asked
            return
        if forgotten:
            await self._session.close([STATE_PARTITION], committed=True)

    async def _why_fenced(self, identity: ProducerIdentity) -> MirrorlakeError:
        """Returns what a refusal of our epoch means, and gives up what this process holds."""
        try:
            found = await self._session.found()
        except MirrorlakeError:
            return self._in_doubt(identity)
        if found is None or isinstance(found, TransactionState):
            return self._in_doubt(identity) if _may_have_timed_out(found, identity) else self._gone()
        return self._gone() if isinstance(found, UnsupportedError) else self._in_doubt(identity)

    async def _check_nobody_came(self, identity: ProducerIdentity) -> None:
        """Looks at the transactional id once more before it is taken again.

        Raises:
            SupersededError: another process has taken it.
            MirrorlakeError: the coordinator could not be asked.
        """
        found = await self._session.found()
        if isinstance(found, UnsupportedError):  # before Kafka 3.0, which cannot be asked
            return
        if isinstance(found, MirrorlakeError):
            raise found
        if not _may_have_timed_out(found, identity):
            raise self._gone()

    def check(self, found: TransactionState | MirrorlakeError | None) -> None:
        """Compares what the coordinator says of the mirror's transactional id with what this process holds.

        Where the coordinator has forgotten the id (it expires after a week without a write) or could not be
        asked, nothing is concluded; the next update then takes the mirror anew. Where it aborted a transaction of ours
        for its time, nothing is held any more until the next update has looked again.

        Raises:
            SupersededError: the epoch is not ours any more.
        """
        if found is None:
            self._is_settled = False
        if self._identity is None or not isinstance(found, TransactionState):
            return
        theirs = (found.producer_id, found.producer_epoch)
        if theirs == (self._identity.producer_id, self._identity.producer_epoch):
            return
        if not _may_have_timed_out(found, self._identity):
            raise self._gone()
        self._in_doubt(self._identity)

    async def prove(self) -> None:
        """Does what ``check`` does where the cluster has no DescribeTransactions (before Kafka 3.0).

        The commit of the last state record is asked for once more, see `ClusterClient.has_ended`.

        Raises:
            SupersededError: the epoch is not ours any more.
            MirrorlakeError: the coordinator could not be asked; nothing is concluded.
        """
        if self._identity is None or not self._is_settled:
            return
        try:
            await self._client.has_ended(transactional_id(self._mirror), self._identity, committed=True)
        except PositionMovedError as refused:
            if refused.facts.get("code") == INVALID_PRODUCER_ID_MAPPING:  # forgotten, as in ``check``
                self._is_settled = False
                return
            raise self._gone() from refused

    def _in_doubt(self, identity: ProducerIdentity) -> BrokerNotReadyError:
        self._doubted = identity
        self._identity = None
        self._state = None
        self._is_settled = False
        return BrokerNotReadyError(
            f"cluster {self._client.settings.name} aborted the transaction of a state record of mirror {self._mirror}, "
            f"most likely because it was open for longer than {TRANSACTION_TIMEOUT_MS / 1000:g} s",
            hint="a broker, the network or this process was frozen; ownership is checked again within seconds",
            mirror=self._mirror,
        )

    def _gone(self) -> SupersededError:
        self._identity = None
        self._state = None
        return SupersededError(
            f"mirror {self._mirror} was taken over by another process at cluster {self._client.settings.name}",
            hint=f"run one process per mirror; the newest record of {self._mirror} in {STATE_TOPIC} names the owner",
            mirror=self._mirror,
        )


def _may_have_timed_out(found: TransactionState | None, identity: ProducerIdentity) -> bool:
    """Returns whether what the coordinator says has another explanation than a new owner.

    An id it has forgotten says nothing, and one it knows as we do is ours.
    """
    if found is None:
        return True
    if found.producer_id != identity.producer_id:
        return False
    raised_by = found.producer_epoch - identity.producer_epoch
    return raised_by == 0 or (raised_by == 1 and found.state in _ABORTED)
