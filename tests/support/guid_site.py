"""Records that name their schemas by GUIDs, on a schema site whose source's registry gives them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from support.command import write_yaml
from support.records import Headers, Record, consume
from support.registry_model import guid_of, record
from support.schema_site import SchemaSite

SIDES = ("key", "value")


@dataclass
class GuidSite(SchemaSite):
    """A site with schemas for keys and values. Partition 0 has GUIDs before payloads, partition 1 in headers."""

    side: str = "value"

    def register_guid(self, *fields: str, base: int = 0) -> UUID:
        """A version of the side's subject at the source; its GUID there. ``base`` is a version it refers to, 0 none."""
        body: dict[str, object] = {"schema": record(*fields)}
        if base:
            body["references"] = [{"name": "Base", "subject": "base", "version": base}]
        return UUID(guid_of(self.here.model.register(f"{self.topic}-{self.side}", body).body))

    def make_base_with_other_numbers(self) -> None:
        """A subject whose first version was deleted for good: the one that is left has another number there."""
        here = self.here.model
        here.register("base", {"schema": record("old", name="Base")})
        here.register("base", {"schema": record("base", name="Base")})
        here.delete("base", 1)
        here.delete("base", 1, permanent=True)

    def by_guid(self, guids: Sequence[UUID | None], partition: int, *, start: int = 0) -> list[Record]:
        """A record for each GUID, with bodies of its own; None is a null on the site's side."""
        now_ms = int(time.time() * 1000)
        found = []
        for number, guid in enumerate(guids, start):
            body: bytes | None = b"body %d" % number
            headers: Headers = (("trace", b"\1" + bytes(16)),)
            if guid is None:
                body = None
            elif partition == 0:
                body = b"\1" + guid.bytes + b"body %d" % number
            else:
                headers = (*headers, (f"__{self.side}_schema_id", b"\1" + guid.bytes))
            key, value = (body, b"plain") if self.side == "key" else (b"plain", body)
            found.append(Record(now_ms, key, value, headers))
        return found

    def guid_file(self, mode: str, more: str = "", store: str = "") -> Path:
        """The configuration, with a Kafka destination, or an archive at ``store``."""
        kafka = f"{{type: kafka, cluster: west, offsets: {mode}}}"
        archive = "{type: archive, store: lake, flush: {max-time: 1s}}"
        sides = "{key: topic-name, value: none" if self.side == "key" else "{key: none, value: topic-name"
        return write_yaml(
            self.folder / "guids.yaml",
            f'clusters: {{east: {{bootstrap-servers: "{self.east}"}}, west: {{bootstrap-servers: "{self.west}"}}}}\n'
            + (f'stores: {{lake: {{type: filesystem, root: "{store}"}}}}\n' if store else "")
            + f'registries: {{here: {{url: "{self.here.url}"}}, there: {{url: "{self.there.url}"}}}}\n'
            f'mirrors: [{{name: "{self.topic}", source: {{cluster: east, topics: [{self.topic}]}}, '
            f"destinations: [{archive if store else kafka}], "
            f"schemas: {sides}, from: here{'' if store else ', to: there'}{more}}}}}]\n"
            "service: {metrics: off}\n"
            "engine: {lanes: 1, lease: 1s, memory: 512MiB, discovery: 1h}\n",
        )

    def guids_there(self) -> dict[UUID, UUID]:
        """By the source's, the GUIDs of the same versions at the destination, told from the registries' rules."""
        subject = f"{self.topic}-{self.side}"
        bodies = [[each.body for each in site.model.live(subject)] for site in (self.here, self.there)]
        return {
            UUID(guid_of(one)): UUID(guid_of(other))
            for one in bodies[0]
            for other in bodies[1]
            if one["schema"] == other["schema"]
        }

    def copies_of(self, records: Sequence[Record]) -> list[Record]:
        """What records of the source are at the destination, but for their times."""
        found = []
        for each in records:
            for before, after in self.guids_there().items():
                each = replace(
                    each,
                    key=_changed(each.key, before, after),
                    value=_changed(each.value, before, after),
                    headers=tuple((n, _changed(v, before, after) if n != "trace" else v) for n, v in each.headers),
                )
            found.append(replace(each, timestamp=0))
        return found

    def copied_guids(self, partition: int) -> list[Record]:
        found = consume(self.west, self.topic, partition)
        return [replace(found[offset], timestamp=0) for offset in sorted(found)]


def _changed(payload: bytes | None, before: UUID, after: UUID) -> bytes | None:
    named = b"\1" + before.bytes
    return b"\1" + after.bytes + payload[17:] if payload is not None and payload.startswith(named) else payload
