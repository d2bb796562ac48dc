"""From the mirror-v3 form in the file to the values the program uses."""

from collections.abc import Mapping

from mirrorlake.config.checking import TO_ADD, check, check_one_of, entries
from mirrorlake.config.destinations.archive import ArchiveDestination, Compaction, Flush
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.mirror_v3_form import (
    V3_DESTINATION_FORMS,
    V3ArchiveForm,
    V3FilesystemForm,
    V3KafkaForm,
    V3MirrorForm,
    V3PoliciesForm,
    V3S3Form,
)
from mirrorlake.config.problems import FieldPath, Place
from mirrorlake.config.resolve.parts import Parts
from mirrorlake.config.resolved import Mirror, TruncationPolicy
from mirrorlake.config.section import Section
from mirrorlake.config.sources.source import KafkaSource
from mirrorlake.config.systems.cluster import Cluster
from mirrorlake.config.systems.store import Store
from mirrorlake.config.topics.selection import TopicSelection
from mirrorlake.kafka.wire.settings import ClusterSettings
from mirrorlake.stores.settings import FilesystemSettings, S3Settings, StoreSettings

STORE_NAME = "destination"
"""Name of the one store of this form: the field that describes it."""


def resolve_mirror_v3(document: Document) -> Parts:
    """Returns all of the file that could be read, after noting everything that could not.

    Clusters have no names in this form; each distinct list of bootstrap servers is one, named by that list.
    """
    return _MirrorV3(document).resolve()


class _MirrorV3:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._clusters: dict[tuple[str, ...], Cluster] = {}
        self._policies = V3PoliciesForm()

    def resolve(self) -> Parts:
        tree = self._document.tree
        assert isinstance(tree, dict)
        path: FieldPath = ("destination",)
        shared = None
        if "destination" in tree:
            given = tree["destination"]
            shared = check_one_of(V3_DESTINATION_FORMS, given, path, self._document)
        else:
            self._document.note(path, "is required", TO_ADD)
        store = self._store(shared, self._document.place(path))
        self._policies = self._root_policies(tree)
        parts = Parts(stores=[store] if store else [])
        if store or isinstance(shared, V3KafkaForm):
            parts.destination_types.append(store.type_name if store else "kafka")
        for mirror_path, mirror_tree in entries(tree, "mirrors", self._document):
            if isinstance(mirror_tree, dict) and isinstance(mirror_tree.get("name"), str):
                parts.names.append((str(mirror_tree["name"]), (*mirror_path, "name")))
            if mirror := self._mirror(mirror_tree, mirror_path, shared, store):
                parts.mirrors.append(mirror)
        parts.clusters = list(self._clusters.values())
        return parts

    def _root_policies(self, tree: Mapping[str, Tree]) -> V3PoliciesForm:
        """Returns what the root says for all mirrors; what cannot be read is noted and left at default."""
        names = [str(field.alias) for field in V3PoliciesForm.model_fields.values()]
        given = {name: tree[name] for name in names if name in tree}
        return check(V3PoliciesForm, given, (), self._document) or V3PoliciesForm()

    def _store(self, shared: Section | None, place: Place) -> Store | None:
        settings: StoreSettings
        match shared:
            case V3FilesystemForm(root=root):
                settings = FilesystemSettings(root=root, makes_root=True)
            case V3S3Form(bucket=bucket, prefix=prefix, region=region, endpoint=endpoint):
                settings = S3Settings(bucket=bucket, prefix=prefix or "", region=region, endpoint=endpoint)
            case _:
                return None
        return Store(name=STORE_NAME, settings=settings, place=place)

    def _mirror(self, tree: Tree, path: FieldPath, shared: Section | None, store: Store | None) -> Mirror | None:
        form = check(V3MirrorForm, tree, path, self._document)
        if form is None:
            return None
        servers = form.source.bootstrap_servers
        source = KafkaSource(
            cluster=self._cluster(servers, (*path, "source", "bootstrap-servers")),
            topics=TopicSelection(names=(form.topic,)),
            partitions=(form.partition,),
            group_id=form.source.group_id or f"mirror-v3-{form.name}",
        )
        destination = self._destination(form, path, shared, store)
        if destination is None:
            return None
        place = self._document.place(path)
        is_view = isinstance(destination, ArchiveDestination) and destination.compaction is Compaction.LOG
        return Mirror(
            name=form.name,
            source=source,
            destinations=(destination,),
            # As in mirror-v3, where a view goes on at the source's log start, and an archive does not.
            on_truncation=self._policies.on_truncation or (TruncationPolicy.SKIP if is_view else TruncationPolicy.PARK),
            on_recreate=self._policies.on_recreate,
            place=place,
        )

    def _destination(
        self, form: V3MirrorForm, path: FieldPath, shared: Section | None, store: Store | None
    ) -> Destination | None:
        override = form.destination_name_override
        place = self._document.place((*path, "destination-name-override") if override else path)
        template = override or "{topic}"
        if isinstance(shared, V3KafkaForm):
            if form.compaction is Compaction.LOG:
                needs = "`compaction: log` needs an archive as destination"
                self._document.note((*path, "compaction"), needs, "leave it out")
            cluster = self._cluster(shared.bootstrap_servers, ("destination", "bootstrap-servers"))
            return KafkaDestination(
                label="kafka",
                cluster=cluster,
                topic_template=template,
                timestamp_mode=shared.timestamp_mode,
                # As in mirror-v3 itself, where nothing creates the destination topic.
                creates_topics=False,
                place=place,
            )
        if not isinstance(shared, V3ArchiveForm) or store is None:
            return None
        return ArchiveDestination(
            label=store.type_name,
            store=store,
            name_template=template,
            format=shared.format,
            compression=shared.compression,
            compaction=form.compaction or shared.compaction or Compaction.NONE,
            flush=_flush(shared),
            place=place,
        )

    def _cluster(self, servers: tuple[str, ...], path: FieldPath) -> Cluster:
        if servers not in self._clusters:
            settings = ClusterSettings(name=",".join(servers), bootstrap_servers=servers)
            self._clusters[servers] = Cluster(settings=settings, place=self._document.place(path))
        return self._clusters[servers]


def _flush(form: V3ArchiveForm) -> Flush:
    return Flush(
        bytes_max=form.flush.max_bytes,
        records_max=form.flush.max_offsets,
        time_seconds_max=form.flush.max_time_ms / 1000,
        daily_at_utc=form.flush.daily.at_utc if form.flush.daily else None,
    )
