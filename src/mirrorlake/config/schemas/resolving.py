"""From the forms of registries and schemas to what the program uses."""

from collections.abc import Callable, Collection, Mapping

from mirrorlake.config.checking import check
from mirrorlake.config.destinations.destination import Destination
from mirrorlake.config.destinations.kafka import KafkaDestination, OffsetMode
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.problems import FieldPath
from mirrorlake.config.reading import suggestion
from mirrorlake.config.schemas.form import (
    Compatibility,
    OnUnreadable,
    RegistryForm,
    RegistryMode,
    SchemaIds,
    SchemasForm,
)
from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry, RegistryInArchive
from mirrorlake.config.systems.store import Store
from mirrorlake.offsets import GapFill
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import SubjectRules
from mirrorlake.schemas.settings import RegistrySettings


def registry_of(
    name: str, tree: Tree, path: FieldPath, document: Document, stores: Mapping[str, Store | None]
) -> Registry | RegistryInArchive | None:
    """Returns a registry, or None after noting what is wrong with it."""
    form = check(RegistryForm, tree, path, document)
    if form is None:
        return None
    if form.store is not None:
        return _in_archive(name, form, path, document, stores)
    if form.registry is not None:
        document.note((*path, "registry"), "has no meaning without `store`", "leave it out")
    if form.url is None:
        document.note((*path, "url"), "is required", "or `store`, for what an archive holds of a registry")
        return None
    if (form.username is None) is not (form.password is None):
        missing = "password" if form.password is None else "username"
        document.note((*path, missing), "is required", "username and password go together")
    if form.token is not None and form.username is not None:
        document.note((*path, "token"), "has no meaning beside `username`", "leave one of them out")
    if form.key is not None and form.certificate is None:
        document.note((*path, "key"), "has no meaning without `certificate`", "leave it out")
    is_plain = all(url.startswith("http://") for url in form.url)
    for field, value in (("ca-file", form.ca_file), ("certificate", form.certificate)):
        if is_plain and value is not None:
            document.note((*path, field), "has no meaning over `http://`", "leave it out, or use `https://`")
    settings = RegistrySettings(
        name=name,
        urls=form.url,
        username=form.username,
        password=form.password,
        token=form.token,
        ca_file=form.ca_file,
        certificate=form.certificate,
        key=form.key,
        context=form.context or "",
    )
    return Registry(settings=settings, place=document.place(path))


def _in_archive(
    name: str, form: RegistryForm, path: FieldPath, document: Document, stores: Mapping[str, Store | None]
) -> RegistryInArchive | None:
    for field in sorted(form.model_fields_set - {"store", "registry"}):
        document.note((*path, field.replace("_", "-")), "has no meaning beside `store`", "leave one of them out")
    assert form.store is not None
    if form.store not in stores:
        hint = suggestion(form.store, stores) if stores else "the file has no `stores`"
        document.note((*path, "store"), f"there is no store `{form.store}`", hint)
    store = stores.get(form.store)
    if store is None:
        return None
    return RegistryInArchive(
        name=name, store=store.settings, registry=form.registry or name, place=document.place(path)
    )


def schemas_of(
    tree: Tree,
    path: FieldPath,
    document: Document,
    registries: Mapping[str, Registry | RegistryInArchive | None],
    destinations: Collection[Destination],
    *,
    filled: Callable[[str], str],
) -> MirroredSchemas | None:
    """Returns how a mirror takes schemas along; None where it does not, or after noting what is wrong.

    Args:
        tree: the mirror's.
        path: where it stands.
        document: takes what is wrong.
        registries: by name; None for those that could not be read.
        destinations: the mirror's, as far as they could be read.
        filled: returns a template of topics with mirror and source filled in.
    """
    if not isinstance(tree, dict) or "schemas" not in tree:
        return None
    where = (*path, "schemas")
    form = check(SchemasForm, tree["schemas"], where, document)
    if form is None:
        return None
    for field, name in (("from", form.from_), ("to", form.to)):
        if name is not None and name not in registries:
            hint = suggestion(name, registries) if registries else "the file has no `registries`"
            document.note((*where, field), f"there is no registry `{name}`", hint)
    if {form.key, form.value} == {SubjectStrategy.NONE}:
        document.note(where, "takes no schemas along: `key` and `value` are `none`", "leave it out")
    has_kafka = any(each.is_topic for each in destinations)
    if form.to is None and has_kafka:
        document.note((*where, "to"), "is required by a destination of type `kafka`", "name its registry")
    if form.to is not None and destinations and not has_kafka:
        document.note((*where, "to"), "has no meaning without a destination of type `kafka`", "leave it out")
    if destinations and not any(each.is_topic or each.schema_store for each in destinations):
        document.note(where, "has no meaning: no destination of the mirror keeps schemas", "leave it out")
    if form.ids is SchemaIds.KEEP and "on_unreadable" in form.model_fields_set:
        document.note(
            (*where, "on-unreadable"), "has no meaning with `ids: keep`: no record is looked at", "leave it out"
        )
    _check_dead_letters(form, where, document, destinations)
    source = registries.get(form.from_)
    destination = None if form.to is None else registries.get(form.to)
    if isinstance(destination, RegistryInArchive):
        hint = "archives hold the schemas of their records: leave it out, and write an archive destination"
        document.note((*where, "to"), f"`{form.to}` is in an archive, and is only read", hint)
        return None
    if source is None or (destination is None and form.to is not None):
        return None
    return MirroredSchemas(
        source=source,
        destination=destination,
        rules=SubjectRules(
            mode=form.mode,
            level=None if form.compatibility is Compatibility.MIRROR else form.compatibility.value,
            deleted=form.deleted_versions,
            keeps_ids=form.ids is SchemaIds.KEEP,
            registry_mode=None if form.registry_mode is RegistryMode.LEAVE else form.registry_mode.value,
        ),
        key=form.key,
        value=form.value,
        passes_keys=form.on_unreadable.key is OnUnreadable.PASS,
        passes_values=form.on_unreadable.value is OnUnreadable.PASS,
        letters_of_keys=form.on_unreadable.key is OnUnreadable.DEAD_LETTER,
        letters_of_values=form.on_unreadable.value is OnUnreadable.DEAD_LETTER,
        letters_template=filled(form.dead_letters.topic) if form.dead_letters else "",
        interval_seconds=form.interval,
        place=document.place(where),
    )


def _check_dead_letters(
    form: SchemasForm, where: FieldPath, document: Document, destinations: Collection[Destination]
) -> None:
    policy = form.on_unreadable
    if not policy.has_dead_letters:
        if form.dead_letters is not None:
            hint = "leave it out, or write `on-unreadable: dead-letter`"
            document.note((*where, "dead-letters"), "has no meaning without `on-unreadable: dead-letter`", hint)
        return
    if form.ids is SchemaIds.KEEP:
        return  # said of `on-unreadable` as a whole
    if form.dead_letters is None:
        hint = 'name one: `dead-letters: {topic: "{topic}.dead-letters"}`'
        document.note((*where, "on-unreadable"), "`dead-letter` needs a topic for dead letters", hint)
    for side, strategy in (("key", form.key), ("value", form.value)):
        if getattr(policy, side) is OnUnreadable.DEAD_LETTER and strategy is SubjectStrategy.NONE:
            message = f"`dead-letter` has no meaning for the {side}: `{side}: none` says that it has no schema"
            # One word for both sides may mean the other.
            if policy.key is not policy.value:
                document.note((*where, "on-unreadable"), message, f"leave `{side}` out of it")
    if destinations and not any(each.is_topic for each in destinations):
        message = "`dead-letter` has no meaning without a destination of type `kafka`: archives keep every record"
        document.note((*where, "on-unreadable"), message, "leave it out")
    for destination in destinations:
        if isinstance(destination, KafkaDestination) and not _takes_letters(destination):
            message = (
                f"`dead-letter` leaves offsets without a record, and {destination.label} fills none: `gap-fill: refuse`"
            )
            hint = "use `gap-fill: markers` or `filler` there, or `offsets: map`, or `fail` or `pass`"
            document.note((*where, "on-unreadable"), message, hint)


def _takes_letters(destination: KafkaDestination) -> bool:
    return destination.offsets is OffsetMode.MAP or destination.gap_fill is not GapFill.REFUSE
