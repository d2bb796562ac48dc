"""The mirror that `mirrorlake restore` runs: one of an archive, from options, beside a file's clusters and stores."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from mirrorlake.config.checking import read_or_note
from mirrorlake.config.cross_checks import check_mirrors
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.problems import Place, ProblemList
from mirrorlake.config.reading import found, suggestion
from mirrorlake.config.resolved import Configuration, Mirror
from mirrorlake.config.sources.source import ArchiveSource
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.config.values.names import parted, read_name, read_template, read_topic_entry
from mirrorlake.config.values.positions import read_moment
from mirrorlake.foreign_layout import ForeignLayout
from mirrorlake.offsets import GapFill
from mirrorlake.window import Window

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What was asked for, as it was written.

    ``topics`` are names and expressions parted by commas. ``name`` empty is made of the store's. ``gap_fill`` is for
    equal offsets.
    """

    store: str
    topics: str
    to: str
    rename: str = "{topic}"
    from_time: str | None = None
    until: str | None = None
    offsets: str = OffsetMode.PRESERVE.value
    gap_fill: str | None = None
    partitions: tuple[int, ...] | None = None
    generation: int | None = None
    layout: ForeignLayout | None = None
    name: str = ""


def restore_configuration(config: Configuration, options: RestoreOptions) -> Configuration:
    """Returns a configuration with the one mirror that was asked for, on the file's clusters, stores and engine.

    It serves no metrics: whatever runs from the same file does so there.

    Raises:
        ConfigurationErrors: every option that cannot be used, each by its name.
    """
    problems = ProblemList()
    mirror = _mirror(config, options, problems)
    if mirror is not None and not problems.found:
        check_mirrors([mirror], problems)
    problems.raise_if_any()
    assert mirror is not None
    return replace(
        config,
        mirrors=(mirror,),
        destination_types=("kafka",),
        # Their ports are those of a service of the same file, which a restore may run beside.
        service=replace(config.service, metrics=None),
        engine=replace(config.engine, ui_port=None),
    )


def _mirror(config: Configuration, options: RestoreOptions, problems: ProblemList) -> Mirror | None:
    stores = {store.name: store for store in config.stores}
    clusters = {cluster.name: cluster for cluster in config.clusters}
    store = _named("--store", "store", options.store, stores, problems)
    cluster = _named("--to", "cluster", options.to, clusters, problems)
    name = _read("--name", read_name, options.name or f"restore-{options.store}", problems)
    if name in {mirror.name for mirror in config.mirrors}:
        problems.add(_place("--name"), f"the file has a mirror `{name}`", "give the restore another name")
    if options.layout is not None:
        _read("--region", read_name, options.layout.region, problems)
        if options.generation is not None:
            problems.add(_place("--generation"), "has no meaning for this layout: its folders say nothing of it")
    topics = _topics(options.topics, problems)
    template = _read("--rename", read_template, options.rename, problems)
    window = Window(
        from_ms=_moment("--from", options.from_time, problems), until_ms=_moment("--until", options.until, problems)
    )
    if options.gap_fill is not None and options.offsets == OffsetMode.MAP.value:
        problems.add(_place("--gap-fill"), "has no meaning for `--offsets map`", "leave it out")
    if window.from_ms is not None and window.until_ms is not None and window.until_ms < window.from_ms:
        problems.add(_place("--until"), "is before `--from`, so nothing lies between")
    if store is None or cluster is None or name is None or topics is None or template is None:
        return None
    return Mirror(
        name=name,
        source=ArchiveSource(
            store=store,
            topics=topics,
            partitions=options.partitions,
            window=window,
            generation=options.generation,
            layout=options.layout,
        ),
        destinations=(
            KafkaDestination(
                label=cluster.name,
                cluster=cluster,
                topic_template=template.replace("{mirror}", name).replace("{cluster}", store.name),
                offsets=OffsetMode(options.offsets),
                gap_fill=GapFill(options.gap_fill or GapFill.MARKERS),
                place=_place("--to"),
            ),
        ),
        place=_place(""),
    )


def _place(option: str) -> Place:
    return Place(file="restore", line=0, column=0, field=option)


def _named(option: str, kind: str, name: str, known: dict[str, T], problems: ProblemList) -> T | None:
    if name not in known:
        hint = suggestion(name, known) if known else f"the file has no {kind}s"
        problems.add(_place(option), f"there is no {kind} {found(name)}", hint)
    return known.get(name)


def _read(option: str, read: Callable[[object], T], value: object, problems: ProblemList) -> T | None:
    return read_or_note(read, value, _place(option), problems)


def _moment(option: str, text: str | None, problems: ProblemList) -> int | None:
    return None if text is None else _read(option, read_moment, text, problems)


def _topics(text: str, problems: ProblemList) -> TopicSelection | None:
    entries = [_read("--topics", read_topic_entry, entry, problems) for entry in split_topics(text)]
    if not entries:
        problems.add(_place("--topics"), "names no topic", "for example orders,/payments-.*/")
    sound = [entry for entry in entries if entry is not None]
    if not sound or len(sound) < len(entries):
        return None
    names, patterns = parted(list(dict.fromkeys(sound)))
    return TopicSelection(names=names, patterns=patterns)


def split_topics(text: str) -> Iterator[str]:
    """Yields names and expressions that are parted by commas; a comma inside of an expression parts nothing."""
    rest = text.strip().strip(",")
    while rest:
        is_expression = rest.startswith("/")
        end = rest.find("/,") + 1 if is_expression else rest.find(",")
        if end <= 0:
            yield rest.strip()
            return
        yield rest[:end].strip()
        rest = rest[end:].lstrip(", ")
