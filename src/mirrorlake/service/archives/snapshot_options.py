"""What is asked of ``archive snapshot``, as its command line has it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mirrorlake.config.checking import read_or_note
from mirrorlake.config.problems import Place, ProblemList
from mirrorlake.config.reading import found as found_text
from mirrorlake.config.reading import suggestion
from mirrorlake.config.resolved import Configuration
from mirrorlake.config.systems.store import Store
from mirrorlake.config.values.names import read_template
from mirrorlake.config.values.positions import read_moment
from mirrorlake.service.archives.places import SNAPSHOT_SUFFIX

DEFAULT_NAME = "{topic}" + SNAPSHOT_SUFFIX

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions:
    """What was asked for.

    Attributes:
        until_ms: each partition ends before its first record later than that, in Unix milliseconds; None for no time.
        until_offset: each partition ends below it (exclusive); None for no offset.
        keeps_tombstones: whether keys stay whose latest record is a tombstone.
        store: where to; None for the store of the archive.
        name_template: the folder there; ``{topic}`` is the name of the archive's.
        writer: who makes it, for the files.
    """

    until_ms: int | None = None
    until_offset: int | None = None
    keeps_tombstones: bool = False
    store: Store | None = None
    name_template: str = DEFAULT_NAME
    writer: str = ""

    def name_for(self, name: str) -> str:
        """Returns the folder that the snapshots of a topic's folder go to."""
        return self.name_template.replace("{topic}", name)


def options_of(
    config: Configuration,
    *,
    to: str | None,
    until: str | None,
    until_offset: int | None,
    keeps_tombstones: bool,
    writer: str,
) -> SnapshotOptions:
    """Returns the options of a command line, as it has them.

    Args:
        config: with the stores.
        to: `STORE:FOLDER`; None for the default folder in the archive's own store.
        until: RFC 3339.
        until_offset: exclusive.
        keeps_tombstones: see `SnapshotOptions`.
        writer: likewise.

    Raises:
        ConfigurationErrors: every option that cannot be used, each by its name.
    """
    problems = ProblemList()
    stores = {store.name: store for store in config.stores}
    store, template = None, DEFAULT_NAME
    if to is not None:
        name, colon, folder = to.partition(":")
        store = stores.get(name)
        if store is None:
            hint = suggestion(name, stores) if stores else "the file has no stores"
            problems.add(_option("--to"), f"there is no store {found_text(name)}", hint or "write STORE:FOLDER")
        if colon and folder:
            template = _read("--to", read_template, folder, problems) or template
        if "{" in template.replace("{topic}", ""):
            problems.add(_option("--to"), "knows the placeholder {topic} only", f"for example {DEFAULT_NAME}")
    until_ms = None if until is None else _read("--until", read_moment, until, problems)
    problems.raise_if_any()
    return SnapshotOptions(
        until_ms=until_ms,
        until_offset=until_offset,
        keeps_tombstones=keeps_tombstones,
        store=store,
        name_template=template,
        writer=writer,
    )


def _option(name: str) -> Place:
    return Place(file="archive snapshot", line=0, column=0, field=name)


def _read(option: str, read: Callable[[object], T], value: object, problems: ProblemList) -> T | None:
    return read_or_note(read, value, _option(option), problems)
