"""What an archive keeps of schemas: values and their bytes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorlake.archive.marker_content import decode_sealed, encode_sealed, list_of, number_of, object_of, text_of
from mirrorlake.archive.schemas.names import VersionName
from mirrorlake.schemas.history import Reference, Schema, SchemaVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedVersion:
    """A version of a subject as it was when it was archived.

    Attributes:
        subject: the registry's name of it.
        version: number, id and schema; whether it was soft-deleted then.
        level: the compatibility level that held for the subject then.
        mode: the mode that held then; None where the registry knows no modes.
    """

    subject: str
    version: SchemaVersion
    level: str
    mode: str | None

    @property
    def name(self) -> VersionName:
        """What its object is called."""
        return VersionName(version=self.version.version, id=self.version.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectState:
    """How a subject stood at a later look.

    ``deleted`` says of each version that was archived by then whether it is listed no more; of later ones their own
    objects say it. ``guids`` has those of versions whose own objects do not say them: the registry had given out none.
    """

    subject: str
    level: str
    mode: str | None
    deleted: Mapping[VersionName, bool]
    guids: Mapping[VersionName, str] = field(default_factory=dict)


def encode_version(archived: ArchivedVersion, *, registry: str, writer: str, created_at: str) -> bytes:
    """Returns the object of a version: one JSON object in UTF-8 with a line end, and with its seal."""
    version, schema = archived.version, archived.version.schema
    fields: dict[str, object] = {
        "registry": registry,
        "subject": archived.subject,
        "version": version.version,
        "id": version.id,
        "type": schema.type,
        "schema": schema.text,
        "references": [
            {"name": each.name, "subject": each.subject, "version": each.version, "digest": each.key}
            for each in schema.references
        ],
        "digest": schema.key,
        "deleted": version.is_deleted,
        "level": archived.level,
        "mode": archived.mode,
    }
    for name, text in (("metadata", schema.metadata), ("rule_set", schema.rule_set), ("guid", version.guid)):
        if text:
            fields[name] = text
    return encode_sealed({**fields, "writer": writer, "created_at": created_at})


def decode_version(data: bytes, *, where: str) -> ArchivedVersion | None:
    """Returns what an object says; None where its bytes are not what was written. Unknown fields are passed over.

    Raises:
        UnsupportedError: a later version wrote it.
    """
    try:
        fields = decode_sealed(data, where=where)
        if fields is None:
            return None
        schema = Schema(
            text=text_of(fields["schema"]),
            type=text_of(fields["type"]),
            references=tuple(_reference(object_of(each)) for each in list_of(fields["references"])),
            metadata=text_of(fields.get("metadata", "")),
            rule_set=text_of(fields.get("rule_set", "")),
        )
        if schema.key != text_of(fields["digest"]):
            return None
        return ArchivedVersion(
            subject=text_of(fields["subject"]),
            version=SchemaVersion(
                version=number_of(fields["version"]),
                id=number_of(fields["id"]),
                schema=schema,
                is_deleted=fields["deleted"] is True,
                guid=_guid(fields),
            ),
            level=text_of(fields["level"]),
            mode=_mode(fields),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def encode_state(state: SubjectState, *, registry: str, writer: str, created_at: str) -> bytes:
    """Returns the object of a subject's state, likewise."""
    versions = [
        {
            "version": name.version,
            "id": name.id,
            "deleted": is_deleted,
            **({"guid": state.guids[name]} if name in state.guids else {}),
        }
        for name, is_deleted in sorted(state.deleted.items())
    ]
    fields = {
        "registry": registry,
        "subject": state.subject,
        "level": state.level,
        "mode": state.mode,
        "versions": versions,
    }
    return encode_sealed({**fields, "writer": writer, "created_at": created_at})


def decode_state(data: bytes, *, where: str) -> SubjectState | None:
    """Returns what an object says; see `decode_version`."""
    try:
        fields = decode_sealed(data, where=where)
        if fields is None:
            return None
        versions = {_name(each): each for each in map(object_of, list_of(fields["versions"]))}
        return SubjectState(
            subject=text_of(fields["subject"]),
            level=text_of(fields["level"]),
            mode=_mode(fields),
            deleted={name: each["deleted"] is True for name, each in versions.items()},
            guids={name: guid for name, each in versions.items() if (guid := _guid(each)) is not None},
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _reference(fields: Mapping[str, object]) -> Reference:
    return Reference(
        name=text_of(fields["name"]),
        subject=text_of(fields["subject"]),
        version=number_of(fields["version"]),
        key=text_of(fields["digest"]),
    )


def _name(fields: Mapping[str, object]) -> VersionName:
    return VersionName(version=number_of(fields["version"]), id=number_of(fields["id"]))


def _guid(fields: Mapping[str, object]) -> str | None:
    return text_of(fields["guid"]) if "guid" in fields else None


def _mode(fields: Mapping[str, object]) -> str | None:
    return None if fields["mode"] is None else text_of(fields["mode"])
