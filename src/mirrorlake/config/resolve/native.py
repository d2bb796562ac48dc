"""From the native form in the file to the values the program uses."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from mirrorlake.config.checking import TO_ADD, check, check_one_of, list_to_add, read_or_note
from mirrorlake.config.client_properties import read_properties
from mirrorlake.config.destinations.archive import ArchiveDestination, Compaction
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.destination_form import DestinationForm, SectionContext
from mirrorlake.config.destinations.registry import sections
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.native_form import MirrorForm, MirrorHeadForm
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.reading import found, suggestion
from mirrorlake.config.resolve.parts import Parts
from mirrorlake.config.resolve.sharing import mirror_entries
from mirrorlake.config.resolved import Mirror
from mirrorlake.config.schemas.mirrored import Registry, RegistryInArchive
from mirrorlake.config.schemas.resolving import registry_of, schemas_of
from mirrorlake.config.section import Section
from mirrorlake.config.security_properties import read_security
from mirrorlake.config.sources.forms import ArchiveSourceForm, KafkaReplicatorForm, SourceForm
from mirrorlake.config.sources.source import ArchiveSource, KafkaSource, Source, Start
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.forms import (
    STORE_FORMS,
    ClusterForm,
    StoreAzureForm,
    StoreFilesystemForm,
    StoreGcsForm,
    StoreS3Form,
)
from mirrorlake.config.systems.store import Store
from mirrorlake.config.topics.heartbeats import heartbeats_of, with_heartbeats
from mirrorlake.config.topics.select import projection_of
from mirrorlake.config.topics.selection import NameSelection, TopicSelection
from mirrorlake.config.values.names import read_name, selected
from mirrorlake.foreign_layout import ForeignLayout, KafkaReplicatorLayout
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings
from mirrorlake.window import Window

STORE_SETTINGS: Mapping[type[Section], type[StoreSettings]] = {
    StoreFilesystemForm: FilesystemSettings,
    StoreS3Form: S3Settings,
    StoreGcsForm: GcsSettings,
    StoreAzureForm: AzureSettings,
}
"""What each kind of store is to the program; the fields have the same names in both."""

T = TypeVar("T")
Known = Mapping[str, T | None]
"""Things by name; None stands for one that is in the file but could not be read."""


def resolve_native(document: Document) -> Parts:
    """Returns all of the file that could be read, after noting everything that could not."""
    return _Native(document).resolve()


class _Native:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._note = document.note
        self._sections = sections()
        self._clusters: Known[Cluster] = {}
        self._stores: Known[Store] = {}
        self._registries: Known[Registry | RegistryInArchive] = {}

    def resolve(self) -> Parts:
        tree = self._document.tree
        assert isinstance(tree, dict)
        self._clusters = self._named("clusters", tree.get("clusters", {}), self._cluster)
        self._stores = self._named("stores", tree.get("stores", {}), self._store)
        self._registries = self._named("registries", tree.get("registries", {}), self._registry)
        parts = Parts()
        parts.clusters = [cluster for cluster in self._clusters.values() if cluster]
        parts.stores = [store for store in self._stores.values() if store]
        parts.registries = [registry for registry in self._registries.values() if registry]
        count = 0
        for path, mirror_tree in mirror_entries(self._document):
            count += 1
            if isinstance(mirror_tree, dict) and isinstance(mirror_tree.get("name"), str):
                parts.names.append((str(mirror_tree["name"]), (*path, "name")))
            if mirror := self._mirror(mirror_tree, path):
                parts.mirrors.append(mirror)
        if not count and (isinstance(tree.get("mirrors"), list) or isinstance(tree.get("groups"), list)):
            self._note(("mirrors",), "no mirrors configured", "name at least one")
        parts.destination_types = [d.type_name for m in parts.mirrors for d in m.destinations]
        return parts

    def _named(self, key: str, tree: Tree, resolve: Callable[[str, Tree, FieldPath], T | None]) -> dict[str, T | None]:
        if not isinstance(tree, dict):
            if not isinstance(tree, UnsetText):
                self._note((key,), f"expected a mapping of names, found {found(tree)}")
            return {}
        for name in tree:
            read_or_note(read_name, name, self._document.place((key, name)), self._document.problems)
        return {name: resolve(name, value, (key, name)) for name, value in tree.items()}

    def _cluster(self, name: str, tree: Tree, path: FieldPath) -> Cluster | None:
        form = check(ClusterForm, tree, path, self._document)
        given = tree.get("properties") if isinstance(tree, dict) else None
        properties = given if isinstance(given, dict) else {}
        read = read_properties(properties, (*path, "properties"), self._document)
        security = read_security(read, (*path, "properties"), self._document)
        if form is None:
            return None
        settings = ClusterSettings(
            name=name, bootstrap_servers=form.bootstrap_servers, security=security, **read.tuning()
        )
        read_limit = form.limit.bytes_per_second if form.limit else None
        return Cluster(settings=settings, read_bytes_per_second=read_limit, place=self._document.place(path))

    def _registry(self, name: str, tree: Tree, path: FieldPath) -> Registry | RegistryInArchive | None:
        return registry_of(name, tree, path, self._document, self._stores)

    def _store(self, name: str, tree: Tree, path: FieldPath) -> Store | None:
        form = check_one_of(STORE_FORMS, tree, path, self._document)
        if form is None:
            return None
        match form:
            case StoreS3Form():
                self._check_s3(form, path)
            case StoreAzureForm(account_key=Secret(), sas_token=Secret()):
                self._note((*path, "sas-token"), "has no meaning beside `account-key`", "leave one of them out")
        given = {name: value for name, value in form if name != "type"}
        if given.get("ca_file") and str(given.get("endpoint")).startswith("http://"):
            self._note((*path, "ca-file"), "has no meaning over `http://`", "leave it out, or use `https://`")
        return Store(name=name, settings=STORE_SETTINGS[type(form)](**given), place=self._document.place(path))

    def _check_s3(self, form: StoreS3Form, path: FieldPath) -> None:
        if (form.access_key_id is None) is not (form.secret_access_key is None):
            missing = "secret-access-key" if form.secret_access_key is None else "access-key-id"
            self._note((*path, missing), "is required", "access key id and secret access key go together")
        if form.session_token is not None and form.access_key_id is None:
            self._note((*path, "session-token"), "has no meaning without `access-key-id`", "leave it out")
        if form.profile is not None and form.access_key_id is not None:
            self._note((*path, "profile"), "has no meaning beside `access-key-id`", "leave one of them out")

    def _look_up_all(self, tree: Tree, path: FieldPath) -> None:
        """Notes clusters and stores that a mirror names and the file has not, whatever else is wrong with it."""
        if not isinstance(tree, dict):
            return
        self._look_up_in(tree.get("source"), "cluster", self._clusters, (*path, "source"))
        self._look_up_in(tree.get("source"), "store", self._stores, (*path, "source"))
        items = tree.get("destinations")
        for index, item in enumerate(items if isinstance(items, list) else ()):
            where = (*path, "destinations", index)
            kind = item.get("type") if isinstance(item, dict) else None
            section = self._sections.get(kind) if isinstance(kind, str) else None
            if section is None:
                continue
            if "cluster" in section.model_fields:
                self._look_up_in(item, "cluster", self._clusters, where)
            if "store" in section.model_fields:
                self._look_up_in(item, "store", self._stores, where)

    def _look_up_in(self, tree: Tree, kind: str, known: Collection[str], path: FieldPath) -> None:
        name = tree.get(kind) if isinstance(tree, dict) else None
        if isinstance(name, str):  # anything else is said by its model
            self._look_up(kind, name, known, (*path, kind))

    def _mirror(self, tree: Tree, path: FieldPath) -> Mirror | None:
        self._look_up_all(tree, path)
        apart = ("source", "destinations", "schemas")
        head_tree = {k: v for k, v in tree.items() if k not in apart} if isinstance(tree, dict) else tree
        head = check(MirrorHeadForm, head_tree, path, self._document, shown_as=MirrorForm)
        source = self._source(tree, path, head)
        destinations = [
            destination
            for where, form in self._destination_forms(tree, path)
            for destination in form.resolved(self._context(where, head, source))
        ]
        schemas = schemas_of(
            tree, path, self._document, self._registries, destinations, filled=lambda t: _filled(t, head, source)
        )
        if head is None or source is None or not destinations:
            return None
        self._check_skipping(source, destinations, (*path, "on-missing-segment"))
        beats = head.heartbeats
        topic = _filled(beats.topic, head, source) if beats else ""
        heartbeats = heartbeats_of(beats, topic, source, (*path, "heartbeats"), self._document)
        return Mirror(
            name=head.name,
            source=with_heartbeats(source, heartbeats),
            destinations=_labelled(destinations),
            on_truncation=head.on_truncation,
            on_recreate=head.on_recreate,
            on_lost_tail=head.on_lost_tail,
            schemas=schemas,
            filter=head.filter.where if head.filter else None,
            select=projection_of(head.select, (*path, "select"), self._document),
            heartbeats=heartbeats,
            is_enabled=head.enabled,
            read_bytes_per_second=head.limit.bytes_per_second if head.limit else None,
            stale_after_seconds=head.stale_after,
            place=self._document.place(path),
        )

    def _check_skipping(self, source: Source, destinations: Sequence[Destination], path: FieldPath) -> None:
        """Notes what cannot be done where holes are passed over: both would be wrong without a word."""
        if not isinstance(source, ArchiveSource) or source.skip_after_seconds is None:
            return
        if source.window.is_of_times:
            what = "`skip-after` has no meaning beside `from` and `until`"
            self._note(path, what, "which offsets a time is depends on the records that are missing: wait for them")
        archives = [each for each in destinations if isinstance(each, ArchiveDestination)]
        if any(each.compaction is not Compaction.NONE for each in archives):
            what = "`skip-after` has no meaning for `compaction: log`"
            self._note(path, what, "a view of the latest records needs all of them: wait for the segment")

    def _context(self, path: FieldPath, head: MirrorHeadForm | None, source: Source | None) -> SectionContext:
        return SectionContext(
            path=path,
            document=self._document,
            clusters=self._clusters,
            stores=self._stores,
            source=source,
            filled=lambda template: _filled(template, head, source),
        )

    def _destination_forms(self, tree: Tree, path: FieldPath) -> list[tuple[FieldPath, DestinationForm]]:
        if not isinstance(tree, dict):
            return []
        where = (*path, "destinations")
        items = tree.get("destinations")
        if "destinations" not in tree:
            self._note(where, "is required", list_to_add("destinations"))
        elif not isinstance(items, list | UnsetText):
            self._note(where, f"expected a list, found {found(items)}")
        elif not items and not isinstance(items, UnsetText):
            self._note(where, "names no destination", "a mirror has at least one")
        forms = []
        for index, item in enumerate(items if isinstance(items, list) else []):
            form = check_one_of(self._sections, item, (*where, index), self._document)
            if form is not None:
                forms.append(((*where, index), form))
        return forms

    def _source(self, mirror_tree: Tree, mirror_path: FieldPath, head: MirrorHeadForm | None) -> Source | None:
        path = (*mirror_path, "source")
        if not isinstance(mirror_tree, dict):
            return None
        if "source" not in mirror_tree:
            self._note(path, "is required", TO_ADD)
            return None
        tree = mirror_tree["source"]
        if not isinstance(tree, dict) or "store" not in tree:
            self._refuse_archives_policy(mirror_tree, mirror_path)
            form = check(SourceForm, tree, path, self._document)
            return self._kafka_source(form, path) if form else None
        if "cluster" in tree:
            self._note((*path, "store"), "has no meaning beside `cluster`", "a mirror reads one of the two")
            return None
        archive_form = check(ArchiveSourceForm, tree, path, self._document)
        skip_after_seconds = head.on_missing_segment if head else None
        return self._archive_source(archive_form, path, skip_after_seconds) if archive_form else None

    def _refuse_archives_policy(self, mirror_tree: Mapping[str, Tree], path: FieldPath) -> None:
        if "on-missing-segment" in mirror_tree:
            where = (*path, "on-missing-segment")
            self._note(where, "has no meaning for a cluster as source", "leave it out")

    def _kafka_source(self, form: SourceForm, path: FieldPath) -> KafkaSource | None:
        topics, cluster = self._topics(form.topics, form.exclude, path), self._clusters.get(form.cluster)
        if cluster is None or topics is None:
            return None
        window = Window(until_ms=form.until, until_offsets=form.until_offsets)
        for key, flaw in end_flaws(form.start, window).items():
            self._note((*path, key), flaw)
        return KafkaSource(cluster=cluster, topics=topics, partitions=form.partitions, start=form.start, window=window)

    def _archive_source(
        self, form: ArchiveSourceForm, path: FieldPath, skip_after_seconds: float | None
    ) -> ArchiveSource | None:
        topics, store = self._topics(form.topics, form.exclude, path), self._stores.get(form.store)
        window = Window(
            from_ms=form.from_, until_ms=form.until, from_offsets=form.from_offsets, until_offsets=form.until_offsets
        )
        for key, flaw in window_flaws(window).items():
            self._note((*path, key), flaw)
        if form.layout is not None and form.generation is not None:
            self._note((*path, "generation"), "has no meaning for this layout: its folders say nothing of it")
        if store is None or topics is None:
            return None
        return ArchiveSource(
            store=store,
            topics=topics,
            layout=_layout(form.layout),
            partitions=form.partitions,
            window=window,
            generation=form.generation,
            skip_after_seconds=skip_after_seconds,
        )

    def _topics(self, topics: list[str], excluded: list[str], path: FieldPath) -> TopicSelection | None:
        if not topics:
            self._note((*path, "topics"), "names no topic")
        for index, entry in enumerate(topics):
            if entry in topics[:index]:
                self._note((*path, "topics", index), f"`{entry}` is listed twice", "remove one of them")
        if not topics:
            return None
        chosen = NameSelection(**selected(topics, excluded))
        return TopicSelection(
            names=chosen.names,
            patterns=chosen.patterns,
            excluded_names=chosen.excluded_names,
            excluded_patterns=chosen.excluded_patterns,
        )

    def _look_up(self, kind: str, name: str, known: Collection[str], path: FieldPath) -> None:
        if name not in known:
            hint = suggestion(name, known) if known else f"the file has no {kind}s"
            self._note(path, f"there is no {kind} `{name}`", hint)


def _filled(template: str, head: MirrorHeadForm | None, source: Source | None) -> str:
    """Returns a template with mirror and source filled in; either is None where it could not be read."""
    return template.replace("{mirror}", head.name if head else "").replace("{cluster}", source.name if source else "")


def window_flaws(window: Window) -> dict[str, str]:
    """Returns by field why a window holds nothing of a partition, whatever the archive holds; none where it may."""
    flaws: dict[str, str] = {}
    if window.from_ms is not None and window.until_ms is not None and window.until_ms < window.from_ms:
        flaws["until"] = "is before `from`, so nothing lies between"
    for topic, by_partition in window.until_offsets.items():
        for partition, offset in by_partition.items():
            if offset < (first := window.from_offset(topic, partition)):
                flaws["until-offsets"] = f"ends {topic}-{partition} at {offset}, before it begins at {first}"
    return flaws


def end_flaws(start: Start, window: Window) -> dict[str, str]:
    """Returns by field why nothing lies between where partitions of a cluster begin and end; none where it may."""
    flaws: dict[str, str] = {}
    if start.timestamp_ms is not None and window.until_ms is not None and window.until_ms < start.timestamp_ms:
        flaws["until"] = "is before the timestamp of `start`, so nothing lies between"
    begun = Window(from_offsets=start.offsets, until_offsets=window.until_offsets)
    return flaws | window_flaws(begun)


def _labelled(destinations: list[Destination]) -> tuple[Destination, ...]:
    """Returns the destinations with labels that differ: cluster or store, and the template if need be."""
    labels = [destination.label for destination in destinations]
    return tuple(
        replace(d, label=f"{d.label}/{d.name_for('{topic}')}") if labels.count(d.label) > 1 else d for d in destinations
    )


def _layout(form: KafkaReplicatorForm | None) -> ForeignLayout | None:
    if form is None:
        return None
    return KafkaReplicatorLayout(
        region=form.region, begins_at=form.begins_at, null_for_empty=frozenset(form.null_for_empty)
    )
