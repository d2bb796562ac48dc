"""From the native form in the file to the values the program uses."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic_core import PydanticCustomError

from mirrorlake.config.checking import check, check_one_of, entries, note_refusal
from mirrorlake.config.client_properties import read_properties
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.kinds import read_name
from mirrorlake.config.native_form import (
    DESTINATION_FORMS,
    STORE_FORMS,
    ArchiveDestinationForm,
    ClusterForm,
    KafkaDestinationForm,
    MirrorForm,
    MirrorHeadForm,
    SourceForm,
    StoreAzureForm,
    StoreFilesystemForm,
    StoreGcsForm,
    StoreS3Form,
)
from mirrorlake.config.parts import Parts
from mirrorlake.config.problems import FieldPath, ProblemList
from mirrorlake.config.reading import found, suggestion
from mirrorlake.config.resolved import (
    ArchiveDestination,
    ArchiveFormat,
    Cluster,
    Compaction,
    Destination,
    Flush,
    KafkaDestination,
    Mirror,
    OffsetMode,
    Source,
    Store,
    TopicSelection,
)
from mirrorlake.config.section import Section
from mirrorlake.config.security_properties import read_security
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.offsets import GapFill
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings

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


def resolve_native(document: Document, problems: ProblemList) -> Parts:
    """Returns all of the file that could be read, after noting everything that could not."""
    return _Native(document, problems).resolve()


class _Native:
    def __init__(self, document: Document, problems: ProblemList) -> None:
        self._document = document
        self._problems = problems
        self._clusters: Known[Cluster] = {}
        self._stores: Known[Store] = {}

    def resolve(self) -> Parts:
        tree = self._document.tree
        assert isinstance(tree, dict)
        self._clusters = self._named("clusters", tree.get("clusters", {}), self._cluster)
        self._stores = self._named("stores", tree.get("stores", {}), self._store)
        parts = Parts()
        parts.clusters = [cluster for cluster in self._clusters.values() if cluster]
        parts.stores = [store for store in self._stores.values() if store]
        count = 0
        for path, mirror_tree in entries(tree, "mirrors", self._document, self._problems):
            count += 1
            if isinstance(mirror_tree, dict) and isinstance(mirror_tree.get("name"), str):
                parts.names.append((str(mirror_tree["name"]), (*path, "name")))
            if mirror := self._mirror(mirror_tree, path):
                parts.mirrors.append(mirror)
        if isinstance(tree.get("mirrors"), list) and not count:
            self._note(("mirrors",), "no mirrors configured", "name at least one")
        parts.destination_types = [d.type_name for m in parts.mirrors for d in m.destinations]
        return parts

    def _named(self, key: str, tree: Tree, resolve: Callable[[str, Tree, FieldPath], T | None]) -> dict[str, T | None]:
        if not isinstance(tree, dict):
            if not isinstance(tree, UnsetText):
                self._note((key,), f"expected a mapping of names, found {found(tree)}")
            return {}
        for name in tree:
            try:
                read_name(name)
            except PydanticCustomError as error:
                note_refusal(error, self._document.place((key, name)), self._problems)
        return {name: resolve(name, value, (key, name)) for name, value in tree.items()}

    def _cluster(self, name: str, tree: Tree, path: FieldPath) -> Cluster | None:
        form = check(ClusterForm, tree, path, self._document, self._problems)
        given = tree.get("properties") if isinstance(tree, dict) else None
        properties = given if isinstance(given, dict) else {}
        read = read_properties(properties, (*path, "properties"), self._document, self._problems)
        security = read_security(read, (*path, "properties"), self._document, self._problems)
        if form is None:
            return None
        settings = ClusterSettings(
            name=name, bootstrap_servers=form.bootstrap_servers, security=security, **read.tuning()
        )
        return Cluster(settings=settings, place=self._document.place(path))

    def _store(self, name: str, tree: Tree, path: FieldPath) -> Store | None:
        form = check_one_of(STORE_FORMS, tree, path, self._document, self._problems)
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
        items = tree.get("destinations")
        for index, item in enumerate(items if isinstance(items, list) else ()):
            where = (*path, "destinations", index)
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "kafka":
                self._look_up_in(item, "cluster", self._clusters, where)
            elif kind == "archive":
                self._look_up_in(item, "store", self._stores, where)

    def _look_up_in(self, tree: Tree, kind: str, known: Collection[str], path: FieldPath) -> None:
        name = tree.get(kind) if isinstance(tree, dict) else None
        if isinstance(name, str):  # anything else is said by its model
            self._look_up(kind, name, known, (*path, kind))

    def _mirror(self, tree: Tree, path: FieldPath) -> Mirror | None:
        self._look_up_all(tree, path)
        head_tree = {k: v for k, v in tree.items() if k != "destinations"} if isinstance(tree, dict) else tree
        head = check(MirrorHeadForm, head_tree, path, self._document, self._problems, shown_as=MirrorForm)
        forms = self._destination_forms(tree, path)
        source = self._source(head.source, (*path, "source")) if head else None
        destinations = [
            destination
            for destination_path, form in forms
            if (destination := self._destination(form, destination_path, head, source))
        ]
        if head is None or source is None or not destinations:
            return None
        return Mirror(
            name=head.name,
            source=source,
            destinations=_labelled(destinations),
            on_truncation=head.on_truncation,
            on_recreate=head.on_recreate,
            on_lost_tail=head.on_lost_tail,
            is_enabled=head.enabled,
            place=self._document.place(path),
        )

    def _destination_forms(
        self, tree: Tree, path: FieldPath
    ) -> list[tuple[FieldPath, KafkaDestinationForm | ArchiveDestinationForm]]:
        if not isinstance(tree, dict):
            return []
        where = (*path, "destinations")
        items = tree.get("destinations")
        if "destinations" not in tree:
            self._note(where, "is required")
        elif not isinstance(items, list | UnsetText):
            self._note(where, f"expected a list, found {found(items)}")
        elif not items and not isinstance(items, UnsetText):
            self._note(where, "names no destination", "a mirror has at least one")
        forms = []
        for index, item in enumerate(items if isinstance(items, list) else []):
            form = check_one_of(DESTINATION_FORMS, item, (*where, index), self._document, self._problems)
            if isinstance(form, KafkaDestinationForm | ArchiveDestinationForm):
                forms.append(((*where, index), form))
        return forms

    def _source(self, form: SourceForm, path: FieldPath) -> Source | None:
        cluster = self._clusters.get(form.cluster)
        if not form.topics:
            self._note((*path, "topics"), "names no topic")
        for index, entry in enumerate(form.topics):
            if entry in form.topics[:index]:
                self._note((*path, "topics", index), f"`{entry}` is listed twice", "remove one of them")
        if cluster is None or not form.topics:
            return None
        names, patterns = _parted(form.topics)
        excluded_names, excluded_patterns = _parted(form.exclude)
        selection = TopicSelection(
            names=names,
            patterns=patterns,
            excluded_names=excluded_names,
            excluded_patterns=excluded_patterns,
        )
        return Source(cluster=cluster, topics=selection, partitions=form.partitions, start=form.start)

    def _destination(
        self,
        form: KafkaDestinationForm | ArchiveDestinationForm,
        path: FieldPath,
        head: MirrorHeadForm | None,
        source: Source | None,
    ) -> Destination | None:
        mirror_name = head.name if head else ""
        source_name = source.cluster.name if source else ""
        if isinstance(form, KafkaDestinationForm):
            template = _filled(form.topic, mirror_name, source_name)
            return self._kafka(form, path, template)
        return self._archive(form, path, _filled(form.name, mirror_name, source_name))

    def _kafka(self, form: KafkaDestinationForm, path: FieldPath, template: str) -> KafkaDestination | None:
        if form.gap_fill is not None and form.offsets is OffsetMode.MAP:
            self._note((*path, "gap-fill"), "has no meaning with `offsets: map`", "leave it out")
        if form.replication_factor is not None and not form.create_topics:
            self._note((*path, "replication-factor"), "has no meaning with `create-topics: false`")
        cluster = self._clusters.get(form.cluster)
        if cluster is None:
            return None
        return KafkaDestination(
            label=cluster.name,
            cluster=cluster,
            topic_template=template,
            offsets=form.offsets,
            gap_fill=form.gap_fill or GapFill.MARKERS,
            gap_fill_offsets_max=form.gap_fill_max_offsets,
            timestamp_mode=form.timestamp_mode,
            creates_topics=form.create_topics,
            replication_factor=form.replication_factor,
            place=self._document.place(path),
        )

    def _archive(self, form: ArchiveDestinationForm, path: FieldPath, template: str) -> ArchiveDestination | None:
        if "compression" in form.model_fields_set and form.format is not ArchiveFormat.PARQUET:
            self._note((*path, "compression"), f"has no meaning with `format: {form.format}`", "leave it out")
        if "keep_snapshots" in form.model_fields_set and form.compaction is not Compaction.LOG:
            self._note((*path, "keep-snapshots"), "has no meaning without `compaction: log`", "leave it out")
        store = self._stores.get(form.store)
        if store is None:
            return None
        return ArchiveDestination(
            label=store.name,
            store=store,
            name_template=template,
            format=form.format,
            compression=form.compression,
            compaction=form.compaction,
            snapshots_kept=form.keep_snapshots,
            flush=Flush(
                bytes_max=form.flush.max_bytes,
                records_max=form.flush.max_records,
                time_seconds_max=form.flush.max_time,
                daily_at_utc=form.flush.daily.at_utc if form.flush.daily else None,
            ),
            place=self._document.place(path),
        )

    def _look_up(self, kind: str, name: str, known: Collection[str], path: FieldPath) -> None:
        if name not in known:
            hint = suggestion(name, known) if known else f"the file has no {kind}s"
            self._note(path, f"there is no {kind} `{name}`", hint)

    def _note(self, path: FieldPath, message: str, hint: str = "") -> None:
        self._problems.add(self._document.place(path), message, hint)


def _parted(entries_written: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns names and expressions, the latter without their slashes."""
    names = tuple(entry for entry in entries_written if not entry.startswith("/"))
    return names, tuple(entry[1:-1] for entry in entries_written if entry.startswith("/"))


def _filled(template: str, mirror_name: str, cluster_name: str) -> str:
    return template.replace("{mirror}", mirror_name).replace("{cluster}", cluster_name)


def _labelled(destinations: list[Destination]) -> tuple[Destination, ...]:
    """Returns the destinations with labels that differ: cluster or store, and the template if need be."""
    labels = [destination.label for destination in destinations]
    return tuple(
        replace(d, label=f"{d.label}/{d.name_for('{topic}')}") if labels.count(d.label) > 1 else d for d in destinations
    )
