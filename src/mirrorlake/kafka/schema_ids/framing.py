"""What lies where a record's schema id is looked for, by name. Imports no compiled loop."""

from enum import StrEnum


class Framing(StrEnum):
    """What lies where a record's schema id is looked for, in the order of the kernel's numbers."""

    NULL = "null"
    """No key, or no value: a tombstone has no schema."""
    SHORT = "short"
    """Too short for an id."""
    NOT_FRAMED = "not-framed"
    """It begins with another byte than a schema id does."""
    GUID = "guid"
    """A GUID, which is known, and which the destination's registry gives no schema: no reader there can resolve it."""
    ABSENT = "absent"
    """An id or GUID that the source's registry does not know."""
    UNKNOWN = "unknown"
    """An id or GUID that is not in the map: nobody has asked the registries about it yet."""
    KNOWN = "known"
    """An id or GUID that is known."""


FRAMINGS = tuple(Framing)
SIDE_NAMES = ("key", "value")
HEADER_NAMES = (b"__key_schema_id", b"__value_schema_id")
"""By side: the header that names the schema, where one does."""
