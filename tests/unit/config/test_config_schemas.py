"""Registries, and how mirrors take schemas along."""

from pathlib import Path

import pytest

from mirrorlake.config.schemas.mirrored import MirroredSchemas, Registry, RegistryInArchive
from mirrorlake.schemas.naming import SubjectStrategy
from mirrorlake.schemas.rules import DeletedVersions, SubjectMode, SubjectRules
from unit.config.config_texts import load, refusals

REGISTRIES = 'registries: {east: {url: "https://east:8081"}, west: {url: ["https://w1", "https://w2/"]}}\n'
IN_ARCHIVE = 'registries: {kept: {store: lake}, west: {url: "https://w1"}}\n'
TO_KAFKA = "{type: kafka, cluster: b}"
TO_ARCHIVE = "{type: archive, store: lake}"


def written(schemas: str, *, registries: str = REGISTRIES, destination: str = TO_KAFKA) -> str:
    return (
        'clusters: {a: {bootstrap-servers: "a:9092"}, b: {bootstrap-servers: "b:9092"}}\n'
        "stores: {lake: {type: filesystem, root: /lake}}\n"
        f"{registries}mirrors:\n"
        f"  - {{name: m, source: {{cluster: a, topics: [t]}}, destinations: [{destination}], schemas: {schemas}}}\n"
    )


def schemas_of(text: str, **environ: str) -> MirroredSchemas:
    found = load(text, **environ).mirrors[0].schemas
    assert found is not None
    return found


def test_a_mirror_takes_values_along_and_leaves_nothing_to_chance() -> None:
    found = schemas_of(written("{from: east, to: west}"))

    assert isinstance(found.source, Registry)
    assert (found.source.settings.urls, found.there.settings.urls) == (
        ("https://east:8081",),
        ("https://w1", "https://w2"),
    )
    assert (found.key, found.value) == (SubjectStrategy.NONE, SubjectStrategy.TOPIC_NAME)
    assert found.rules == SubjectRules(mode=SubjectMode.STRICT, level=None, deleted=DeletedVersions.KEEP)


def test_an_archive_holds_the_schemas_itself_and_is_what_they_are_restored_from() -> None:
    assert schemas_of(written("{from: east}", destination=TO_ARCHIVE)).destination is None
    both = schemas_of(written("{from: east, to: west}", destination=f"{TO_ARCHIVE}, {TO_KAFKA}"))
    assert both.there.name == "west"
    found = schemas_of(written("{from: kept, to: west}", registries=IN_ARCHIVE)).source
    assert isinstance(found, RegistryInArchive)
    assert (found.name, found.registry, found.store.where("x")) == ("kept", "kept", "/lake/x")
    named = schemas_of(
        written("{from: kept, to: west}", registries=IN_ARCHIVE.replace("store: lake", "store: lake, registry: east"))
    ).source
    assert isinstance(named, RegistryInArchive)
    assert named.registry == "east"


def test_every_setting_is_taken() -> None:
    found = schemas_of(
        written(
            "{from: east, to: west, mode: lenient, compatibility: NONE, key: record-name, value: topic-record-name, "
            "deleted-versions: mirror, registry-mode: READONLY}"
        )
    )

    assert found.rules == SubjectRules(
        mode=SubjectMode.LENIENT, level="NONE", deleted=DeletedVersions.MIRROR, registry_mode="READONLY"
    )
    assert (found.key, found.value) == (SubjectStrategy.RECORD_NAME, SubjectStrategy.TOPIC_RECORD_NAME)


def test_ids_are_rewritten_and_what_has_none_parks_unless_the_file_says_otherwise() -> None:
    usual = schemas_of(written("{from: east, to: west}"))
    assert (usual.rules.keeps_ids, usual.passes_keys, usual.passes_values, usual.interval_seconds) == (
        *(False, False, False),
        30.0,
    )
    kept = schemas_of(written("{from: east, to: west, ids: keep, interval: 5m}"))
    assert (kept.rules.keeps_ids, kept.interval_seconds) == (True, 300.0)


@pytest.mark.parametrize(
    ("on_unreadable", "passes"),
    [
        ("pass", (True, True)),
        ("fail", (False, False)),
        ("{value: pass}", (False, True)),
        ("{key: pass, value: fail}", (True, False)),
    ],
)
def test_what_cannot_be_read_is_said_of_both_sides_or_of_each(on_unreadable: str, passes: tuple[bool, bool]) -> None:
    found = schemas_of(written(f"{{from: east, to: west, on-unreadable: {on_unreadable}}}"))
    assert (found.passes_keys, found.passes_values) == passes


TO_MAP = "{type: kafka, cluster: b, offsets: map}"
TO_REFUSING = "{type: kafka, cluster: b, offsets: preserve, gap-fill: refuse}"
LETTERS = 'dead-letters: {topic: "{mirror}.{cluster}.{topic}.dead"}'


def test_dead_letters_go_to_a_topic_that_is_named() -> None:
    text = f"{{from: east, to: west, key: topic-name, on-unreadable: {{value: dead-letter, key: pass}}, {LETTERS}}}"
    found = schemas_of(written(text, destination=TO_MAP))
    assert (found.letters_of_keys, found.letters_of_values, found.passes_keys) == (False, True, True)
    assert found.letters_topic("orders") == "m.a.orders.dead"
    both = schemas_of(written(f"{{from: east, to: west, on-unreadable: dead-letter, {LETTERS}}}", destination=TO_MAP))
    assert (both.letters_of_keys, both.letters_of_values) == (True, True)
    assert schemas_of(written("{from: east, to: west}")).letters_topic("orders") == ""


@pytest.mark.parametrize("fill", ["", ", gap-fill: filler", ", gap-fill: markers"])
def test_dead_letters_are_taken_where_offsets_are_kept_and_gaps_filled(fill: str) -> None:
    to = f"{{type: kafka, cluster: b, offsets: preserve{fill}}}"
    found = schemas_of(written(f"{{from: east, to: west, on-unreadable: dead-letter, {LETTERS}}}", destination=to))
    assert found.letters_of_values


@pytest.mark.parametrize(
    ("schemas", "destination", "said"),
    [
        ("on-unreadable: dead-letter", TO_MAP, "needs a topic for dead letters"),
        (LETTERS, TO_MAP, "no meaning without `on-unreadable: dead-letter`"),
        (f"on-unreadable: dead-letter, {LETTERS}", TO_REFUSING, "and b fills none: `gap-fill: refuse`"),
        (f"on-unreadable: dead-letter, {LETTERS}", TO_ARCHIVE, "archives keep every record"),
        (f"on-unreadable: {{key: dead-letter}}, {LETTERS}", TO_MAP, "`key: none` says that it has no schema"),
        (
            "on-unreadable: dead-letter, dead-letters: {topic: __dead}",
            TO_MAP,
            "dead letters would go to topic `__dead`",
        ),
        ("on-unreadable: dead-letter, dead-letters: {topic: t}", TO_MAP, "which mirror m copies t to"),
        (
            "on-unreadable: dead-letter, dead-letters: {topic: t}",
            "{type: kafka, cluster: a, offsets: map, topic: copy}",
            "mirror m would read its own dead letters",
        ),
        (f"ids: keep, on-unreadable: dead-letter, {LETTERS}", TO_MAP, "no meaning with `ids: keep`"),
        ("on-unreadable: dead-letter, dead-letters: {topics: x}", TO_MAP, "did you mean `topic`?"),
    ],
)
def test_dead_letters_that_cannot_work_are_refused_with_their_place(schemas: str, destination: str, said: str) -> None:
    found = refusals(written(f"{{from: east, to: west, {schemas}}}", destination=destination))
    assert any(said in each for each in found), found


def test_a_registry_has_credentials_and_files_of_certificates() -> None:
    registries = (
        "registries:\n"
        '  east: {url: "https://e", username: app, password: "${P}", ca-file: /ca.pem, certificate: /c.pem, '
        "key: /k.pem}\n"
        '  west: {url: "https://w", token: {file: /token}, context: .eu}\n'
    )

    found = schemas_of(written("{from: east, to: west}", registries=registries), P="secret")

    assert isinstance(found.source, Registry)
    east, west = found.source.settings, found.there.settings
    assert east.password is not None
    assert (east.username, east.password.reveal()) == ("app", "secret")
    assert (east.ca_file, east.certificate, east.key) == (Path("/ca.pem"), Path("/c.pem"), Path("/k.pem"))
    assert west.token is not None
    assert (west.token.file, west.context) == (Path("/token"), "eu")
    assert "secret" not in repr(found)


def test_the_defaults_of_all_mirrors_are_filled_up() -> None:
    text = written("{value: record-name}") + "defaults: {schemas: {from: east, to: west, mode: lenient}}\n"

    found = schemas_of(text)

    assert (found.rules.mode, found.value) == (SubjectMode.LENIENT, SubjectStrategy.RECORD_NAME)


@pytest.mark.parametrize(
    ("schemas", "registries", "destination", "said"),
    [
        ("{from: east}", REGISTRIES, TO_KAFKA, "schemas.to: is required"),
        ("{from: east}", REGISTRIES, f"{TO_ARCHIVE}, {TO_KAFKA}", "to: is required by a destination of type `kafka`"),
        ("{from: lost, to: west}", IN_ARCHIVE.replace("lake", "sea"), TO_KAFKA, "there is no store `sea`"),
        ("{from: west, to: kept}", IN_ARCHIVE, TO_KAFKA, "`kept` is in an archive, and is only read"),
        ("{from: kept, to: kept}", IN_ARCHIVE.replace("}", ", token: {file: /t}}", 1), TO_KAFKA, "beside `store`"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h", registry: x}}\n', TO_KAFKA, "without `store`"),
        ("{from: e, to: e}", "registries: {e: {username: x, password: {file: /t}}}\n", TO_KAFKA, "url: is required"),
        ("{from: eats, to: west}", REGISTRIES, TO_KAFKA, "did you mean `east`?"),
        ("{from: east, to: west}", "", TO_KAFKA, "the file has no `registries`"),
        ("{from: east, to: west, mode: loose}", REGISTRIES, TO_KAFKA, "lenient"),
        ("{from: east, to: west, compatibility: SOME}", REGISTRIES, TO_KAFKA, "FULL_TRANSITIVE"),
        ("{from: east, to: west, modus: strict}", REGISTRIES, TO_KAFKA, "did you mean `mode`?"),
        ("{from: east, to: west, on-unreadable: skip}", REGISTRIES, TO_KAFKA, "write `fail`, `pass` or `dead-letter`"),
        ("{from: east, to: west, on-unreadable: {values: pass}}", REGISTRIES, TO_KAFKA, "`values` is no side"),
        (
            "{from: east, to: west, on-unreadable: {value: 1}}",
            REGISTRIES,
            TO_KAFKA,
            "write `fail`, `pass` or `dead-letter`",
        ),
        ("{from: east, to: west, ids: keep, on-unreadable: pass}", REGISTRIES, TO_KAFKA, "no meaning with `ids: keep`"),
        ("{from: east, to: west, value: none}", REGISTRIES, TO_KAFKA, "takes no schemas along"),
        ("{from: east, to: west}", REGISTRIES, TO_ARCHIVE, "to: has no meaning without a destination of type `kafka`"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://u:p@host"}}\n', TO_KAFKA, "holds no credentials"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h", username: u}}\n', TO_KAFKA, "password: is required"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h", token: clear}}\n', TO_KAFKA, "may not be in the file"),
        (
            "{from: e, to: e}",
            'registries: {e: {url: "http://h", ca-file: /c}}\n',
            TO_KAFKA,
            "no meaning over `http://`",
        ),
        ("{from: e, to: e}", 'registries: {e: {url: "https://h", key: /k}}\n', TO_KAFKA, "without `certificate`"),
        ("{from: e, to: e}", 'registries: {e: {url: "https://h", context: "a:b"}}\n', TO_KAFKA, "context"),
        ("{from: e, to: e}", "registries: {e: {url: []}}\n", TO_KAFKA, "names no address"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h/?tenant=a"}}\n', TO_KAFKA, "has a query"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h/#a"}}\n', TO_KAFKA, "or a fragment"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://h:80810"}}\n', TO_KAFKA, "not an http or https address"),
        ("{from: e, to: e}", 'registries: {e: {url: "http://[::1"}}\n', TO_KAFKA, "not an http or https address"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(schemas: str, registries: str, destination: str, said: str) -> None:
    found = refusals(written(schemas, registries=registries, destination=destination))

    assert any(said in each for each in found), found
    assert not any("clear" in each or "u:p" in each for each in found)
