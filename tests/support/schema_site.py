"""A topic with schema ids in its records, two clusters and two registries with Confluent's rules."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from struct import pack, unpack

from support.command import write_yaml
from support.copies import log_end, wait_until
from support.records import Headers, Record, consume
from support.registry_model import RefusedError, record
from support.running_service import RunningService
from support.stub_registry import StubRegistry
from support.topics import append

FIRST_ID_THERE = 500


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + pack(">i", schema_id) + body


def numbered(ids: list[int | None], *, start: int = 0) -> list[Record]:
    """A record for each id, with a body of its own; None is a tombstone."""
    now_ms = int(time.time() * 1000)
    return [
        Record(now_ms, b"key-%d" % number, None if id_ is None else framed(id_, b"body %d" % number))
        for number, id_ in enumerate(ids, start)
    ]


@dataclass
class SchemaSite:
    """Two clusters, two registries, and a topic of two partitions that is mirrored under the same name."""

    east: str
    west: str
    here: StubRegistry
    there: StubRegistry
    topic: str
    folder: Path

    @property
    def subject(self) -> str:
        return f"{self.topic}-value"

    @property
    def letters(self) -> str:
        return f"{self.topic}.dead-letters"

    def register(self, *fields: str, subject: str = "") -> int:
        """A version at the source's registry; its id there."""
        return self.here.model.register(subject or self.subject, {"schema": record(*fields)}).id

    def file(self, mode: str, schemas: str = "") -> Path:
        return write_yaml(
            self.folder / "mirror.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            f'registries: {{here: {{url: "{self.here.url}"}}, there: {{url: "{self.there.url}"}}}}\n'
            f'mirrors: [{{name: "{self.topic}", source: {{cluster: east, topics: [{self.topic}]}}, '
            f"destinations: [{{type: kafka, cluster: west, offsets: {mode}}}], "
            f"schemas: {{from: here, to: there{schemas}}}}}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def make_registry_anew(self, id_: int) -> None:
        """Empties the source's registry, which then gives an id it had given out to another schema."""
        self.here.model.subjects.clear()
        self.here.model.highest.clear()
        self.here.model.next_id = id_
        assert self.register("b") == id_

    def append_until_parked(self, running: RunningService, id_: int, *, start: int) -> int:
        """Appends records with an id one by one until their partition has stopped; returns how many there are then."""
        appended = start

        def has_stopped() -> bool:
            # What comes before the look, and within the lease of that time, has the id of before: no one can know.
            nonlocal appended
            append(self.east, self.topic, 0, numbered([id_], start=appended))
            appended += 1
            return "parked" in running.states()

        wait_until(has_stopped, "its partition to stop", log=lambda: str(running.rows()))
        return appended

    def copied(self, partition: int = 0, topic: str = "") -> list[Record]:
        """What is in the copy, which has the source's name unless told."""
        found = consume(self.west, topic or self.topic, partition)
        return [replace(found[offset], timestamp=0) for offset in sorted(found)]

    def expected(self, partition: int = 0) -> list[Record]:
        """The source's records with the id that their schema has at the destination, told from the registries."""
        found = consume(self.east, self.topic, partition)
        return [replace(self._there(found[offset]), timestamp=0) for offset in sorted(found)]

    def _there(self, source: Record) -> Record:
        key, headers = self._side_there("__key_schema_id", source.key, source.headers)
        value, headers = self._side_there("__value_schema_id", source.value, headers)
        return replace(source, key=key, value=value, headers=headers)

    def _side_there(self, name: str, payload: bytes | None, headers: Headers) -> tuple[bytes | None, Headers]:
        """A key or a value: its id is in the last header of that name, if there is one, and a null has none."""
        own = [at for at, (header, _) in enumerate(headers) if header == name]
        if payload is None or not own or headers[own[-1]][1] is None:
            return self._payload_there(payload), headers
        changed = (name, self._payload_there(headers[own[-1]][1]))
        return payload, (*headers[: own[-1]], changed, *headers[own[-1] + 1 :])

    def _payload_there(self, source: bytes | None) -> bytes | None:
        """What is in front of a payload or in a header; what names no schema of the source's registry is as it was."""
        if source is None or source[:1] != b"\0" or len(source) < 5:
            return source
        try:
            schema = self.here.model.by_id(unpack(">i", source[1:5])[0]).body
        except RefusedError:
            return source
        ids = {
            each.id
            for versions in self.there.model.subjects.values()
            for each in versions
            if each.body["schema"] == schema["schema"]
        }
        (id_,) = ids
        return framed(id_, source[5:])

    def await_copied(self, running: RunningService) -> None:
        def is_there() -> bool:
            ends = {row["partition"]: row["dest_next"] for row in running.rows()}
            return ends == {p: log_end(self.east, self.topic, p) for p in (0, 1)}

        wait_until(is_there, "all to be copied", log=lambda: str(running.rows()))

    def assert_equal(self) -> None:
        for partition in (0, 1):
            assert self.copied(partition) == self.expected(partition)


def letters_in(servers: str, topic: str, partition: int) -> list[Record]:
    """The dead letters that a consumer of committed records sees, in order."""
    found = consume(servers, topic, partition)
    return [found[offset] for offset in sorted(found)]


def letter_headers(letter: Record) -> dict[str, str]:
    """What a letter says of where it comes from and why, by the names behind the prefix."""
    prefix = "__mirrorlake.errors."
    own = [(name.removeprefix(prefix), value) for name, value in letter.headers if name.startswith(prefix)]
    assert len(own) == len(dict(own))
    return {name: (value or b"").decode() for name, value in own}
