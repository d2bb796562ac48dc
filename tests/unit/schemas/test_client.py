"""The client against a registry that speaks Confluent's API, with every fault a network has."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mirrorlake.errors import (
    AuthenticationFailedError,
    ConfigurationError,
    MirrorlakeError,
    NotRegistryError,
    PermissionDeniedError,
    RegistryRefusedError,
    RegistryUnavailableError,
    UntrustedBrokerError,
)
from mirrorlake.schemas.client import RegistryClient
from mirrorlake.schemas.history import Reference, Schema
from mirrorlake.schemas.settings import RegistrySettings
from mirrorlake.schemas.transport import RegistryTransport
from mirrorlake.secret import Secret
from support.certificates import Authority
from support.copies import wait_until
from support.registry_model import RegistryModel, guid_of, record
from support.stub_registry import Page, StubRegistry

PASSWORD = "none-of-your-business"


async def _no_time(seconds: float) -> None:
    """Waits are not worth their time here; what is waited for is told by `Waits`."""


@asynccontextmanager
async def client_of(
    *urls: str, sleep: Callable[[float], Awaitable[None]] = _no_time, **settings: Any
) -> AsyncIterator[RegistryClient]:
    made = RegistrySettings(name="here", urls=urls, **settings)
    client = RegistryClient(made, transport=RegistryTransport(made, sleep=sleep))
    try:
        yield client
    finally:
        await client.close()


_INT = Schema(text='"int"')

CALLS: dict[str, Callable[[RegistryClient], Awaitable[object]]] = {
    "subjects": lambda client: client.subjects(),
    "histories": lambda client: client.histories(["s"]),
    "history": lambda client: client.history("s"),
    "version": lambda client: client.version("s", 1),
    "schema of an id": lambda client: client.schema_of_id(1),
    "places of an id": lambda client: client.places_of_id(1),
    "places of a GUID": lambda client: client.places_of_guid(UUID(int=7)),
    "level": lambda client: client.level("s"),
    "mode": lambda client: client.mode("s"),
    "set level": lambda client: client.set_level("s", "FULL"),
    "set mode": lambda client: client.set_mode("s", "READONLY"),
    "register": lambda client: client.register("s", _INT, []),
    "look up": lambda client: client.look_up("s", _INT, []),
    "delete a version": lambda client: client.delete_version("s", 1),
}
"""Everything that is asked of a registry."""


async def _level(*urls: str, **settings: Any) -> str:
    async with client_of(*urls, sleep=_no_time, **settings) as client:
        return await client.level("s")


def level(*urls: str, **settings: Any) -> str:
    return asyncio.run(_level(*urls, **settings))


def test_a_history_has_deleted_versions_and_the_rules_that_hold() -> None:
    model = RegistryModel(level="FORWARD", mode="READONLY")
    model.modes["s"] = "READWRITE"
    model.levels["s"] = "NONE"
    for each in (record("a"), record("a", "b"), record("a", doc="d")):
        model.register("s", {"schema": each})
    model.delete("s", 2)
    model.levels["s"] = "FULL"

    async def read(url: str) -> None:
        async with client_of(url) as client:
            history = await client.history("s")
            assert [(v.version, v.id, v.is_deleted) for v in history.versions] == [
                (1, 1, False), (2, 2, True), (3, 3, False),
            ]  # fmt: skip
            assert [v.schema.text for v in history.live] == [record("a"), record("a", doc="d")]
            assert (history.level, history.mode) == ("FULL", "READWRITE")
            other = await client.history("never-heard-of")
            assert (other.versions, other.level, other.mode) == ((), "FORWARD", "READONLY")

    with StubRegistry(model) as stub:
        asyncio.run(read(stub.url))


def test_the_same_schema_has_the_same_key_whatever_its_references_are_called() -> None:
    """In one registry what it refers to is version 1 of `a`, in the other version 2 of `b`."""
    text = record("x", name="Outer")

    async def key(model: RegistryModel, subject: str, version: int) -> str:
        references = [{"name": "Inner", "subject": subject, "version": version}]
        model.register("s", {"schema": text, "references": references})
        with StubRegistry(model) as stub:
            async with client_of(stub.url) as client:
                return (await client.history("s")).versions[0].key

    one, two, three = (RegistryModel(level="NONE") for _ in range(3))
    one.register("a", {"schema": record("y", name="Inner")})
    two.register("b", {"schema": record("z", name="Inner")})
    two.register("b", {"schema": record("y", name="Inner")})
    three.register("a", {"schema": record("y", name="Inner", doc="another")})

    keys = [asyncio.run(key(one, "a", 1)), asyncio.run(key(two, "b", 2)), asyncio.run(key(three, "a", 1))]

    assert keys[0] == keys[1] != keys[2]


def test_when_one_of_many_subjects_fails_nobody_connects_any_more_while_the_client_closes() -> None:
    """Who still did left a coroutine of the library behind, which Python warns of: an error, in tests."""
    model = RegistryModel()
    names = [f"s{number:02d}" for number in range(30)]
    for name in names:
        model.register(name, {"schema": record("a", name=f"R{name}")})

    async def read(url: str) -> None:
        async with client_of(url) as client:
            with pytest.raises(PermissionDeniedError):
                await client.histories(names)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with StubRegistry(model) as stub:
        stub.fault = lambda _method, path: (403, {}) if path.startswith("/subjects/s00") else None
        asyncio.run(read(stub.url))


def test_a_subjects_name_is_quoted_as_a_whole() -> None:
    model = RegistryModel()
    model.register("google/type/date proto?", {"schema": record("a")})

    async def read(url: str) -> int:
        async with client_of(url) as client:
            return len((await client.history("google/type/date proto?")).versions)

    with StubRegistry(model) as stub:
        assert asyncio.run(read(stub.url)) == 1


class TestContexts:
    def test_only_the_contexts_subjects_are_seen_under_their_plain_names(self) -> None:
        model = RegistryModel(level="NONE")
        model.register("a", {"schema": record("other")})
        model.register(":.east:a", {"schema": record("a")})
        reference = {"name": "A", "subject": "a", "version": 1}
        model.register(":.east:b", {"schema": record("b"), "references": [reference]})

        async def read(url: str) -> None:
            async with client_of(url, context="east") as client:
                assert await client.subjects() == ["a", "b"]
                history = await client.history("b")
                assert history.versions[0].schema.references[0].subject == "a"
                inner = await client.history("a")
                assert inner.versions[0].schema.text == record("a")
                assert history.versions[0].schema.references[0].key == inner.versions[0].key
                assert await client.places_of_id(inner.versions[0].id) == [("a", 1)]
                schema = await client.schema_of_id(inner.versions[0].id)
                assert schema is not None
                assert schema.text == record("a")
            async with client_of(url) as client:
                assert await client.subjects() == ["a"]

        with StubRegistry(model) as stub:
            asyncio.run(read(stub.url))


class TestAnswersThatCannotBeHad:
    def test_the_next_address_serves_when_one_does_not_answer(self) -> None:
        with StubRegistry(RegistryModel(level="FULL")) as stub:
            assert level("http://localhost:1", stub.url) == "FULL"

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
    def test_a_registry_that_asks_for_patience_is_asked_again(self, status: int) -> None:
        with StubRegistry(RegistryModel(level="FULL")) as stub:
            stub.fault = lambda *_: (status, {}) if len(stub.requests) < 3 else None

            assert level(stub.url) == "FULL"
            assert len(stub.requests) == 4

    def test_patience_has_an_end_and_says_who_did_not_answer(self) -> None:
        with StubRegistry() as stub:
            stub.fault = lambda *_: (503, {})

            with pytest.raises(RegistryUnavailableError, match=r"registry here .*status 503"):
                level(stub.url)

        assert len(stub.requests) == 5

    def test_a_server_is_waited_for_as_long_as_it_asks(self) -> None:
        waited: list[float] = []

        async def remembered(seconds: float) -> None:
            waited.append(seconds)

        async def ask(url: str) -> str:
            async with client_of(url, sleep=remembered) as client:
                return await client.level("s")

        with StubRegistry() as stub:
            stub.fault = lambda *_: (429, {"Retry-After": "7"}) if not stub.requests else None
            asyncio.run(ask(stub.url))

        assert waited == [7.0]

    def test_a_change_whose_answer_was_lost_is_not_sent_again(self) -> None:
        async def change(url: str) -> None:
            async with client_of(url) as client:
                await client.register("s", Schema(text=record("a")), [])

        with StubRegistry() as stub:
            stub.fault = lambda *_: "drop-after"
            with pytest.raises(RegistryUnavailableError):
                asyncio.run(change(stub.url))

        assert stub.model.changes == ["register s 1 id 1"]
        assert len(stub.requests) == 1

    def test_a_change_that_was_surely_not_done_is_sent_to_the_next_address(self) -> None:
        async def change(*urls: str) -> None:
            async with client_of(*urls) as client:
                await client.set_level("s", "FULL")

        with StubRegistry() as stub:
            asyncio.run(change("http://localhost:1", stub.url))

        assert stub.model.changes == ["level s FULL"]

    def test_a_404_that_is_not_the_registrys_own_is_no_absence(self) -> None:
        async def read(url: str) -> None:
            async with client_of(f"{url}/wrong") as client:
                await client.history("s")

        with StubRegistry() as stub, pytest.raises(NotRegistryError, match="404"):
            asyncio.run(read(stub.url))

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize(
        ("status", "error"), [(404, NotRegistryError), (502, RegistryUnavailableError), (200, NotRegistryError)]
    )
    def test_a_page_of_a_proxy_is_no_answer_to_any_call(
        self, status: int, error: type[MirrorlakeError], call: str
    ) -> None:
        model = RegistryModel(level="NONE")
        model.register("s", {"schema": record("a")})
        done_before = list(model.changes)

        async def ask(stub: StubRegistry) -> None:
            async with client_of(stub.url) as client:
                if call == "mode":
                    await client.mode("s")  # or it would be taken for a registry without modes
                stub.fault = lambda *_: Page(status, b"<html><body>404 Not Found</body></html>")
                await CALLS[call](client)

        with StubRegistry(model) as stub:
            with pytest.raises(error) as raised:
                asyncio.run(ask(stub))
            assert stub.url in str(raised.value)
            assert model.changes == done_before

    def test_a_change_that_came_too_slowly_for_a_proxy_may_have_been_done_and_is_not_sent_again(self) -> None:
        async def change(url: str) -> None:
            async with client_of(url) as client:
                await client.set_level("s", "FULL")

        with StubRegistry() as stub:
            stub.fault = lambda *_: (408, {})
            with pytest.raises(RegistryUnavailableError):
                asyncio.run(change(stub.url))
            assert len(stub.requests) == 1

    @pytest.mark.parametrize(
        "body",
        [
            *(b"<html>log in</html>", b'["a", "b', b"", b"null", b"[\xff]", b"[" * 100_000),
            *(
                b'{"subject": "s", "version": 1, "schema": "\\"int\\"", "id": %s}' % each
                for each in (b"-1", b"4294967296")
            ),
        ],
    )
    def test_what_is_not_in_the_words_of_the_api_is_no_answer(self, body: bytes) -> None:
        model = RegistryModel(level="NONE")
        model.register("s", {"schema": record("a")})

        async def read(url: str) -> None:
            async with client_of(url) as client:
                await client.history("s")

        with StubRegistry(model) as stub:
            stub.fault = lambda _method, path: body if path.endswith("/versions/1") else None
            with pytest.raises(NotRegistryError):
                asyncio.run(read(stub.url))

    @pytest.mark.parametrize("subject", [".", "..", "a/../b", "a\ud800"])
    def test_no_subject_is_asked_about_under_the_name_of_another(self, subject: str) -> None:
        model = RegistryModel(level="NONE")
        model.register("versions", {"schema": record("a")})
        model.register("b", {"schema": record("a")})

        async def read(url: str) -> None:
            async with client_of(url) as client:
                assert not (await client.history(subject)).versions

        with StubRegistry(model) as stub:
            if subject.isascii():
                asyncio.run(read(stub.url))
            else:
                with pytest.raises(NotRegistryError, match="Unicode"):
                    asyncio.run(read(stub.url))


class TestPermanentErrors:
    @pytest.mark.parametrize(
        ("schema", "code"), [("{", 42201), (record("b"), 409)], ids=["not a schema", "not compatible"]
    )
    def test_what_a_registry_refuses_is_refused_once(self, schema: str, code: int) -> None:
        model = RegistryModel(level="FULL")
        model.register("s", {"schema": record("a")})

        async def change(url: str) -> None:
            async with client_of(url) as client:
                await client.register("s", Schema(text=schema), [])

        with StubRegistry(model) as stub:
            with pytest.raises(RegistryRefusedError, match="subject s") as caught:
                asyncio.run(change(stub.url))
            assert len(stub.requests) == 1

        assert caught.value.facts["error_code"] == code

    def test_a_missing_right_says_so(self) -> None:
        with StubRegistry() as stub:
            stub.fault = lambda *_: (403, {})
            with pytest.raises(PermissionDeniedError):
                level(stub.url)

    def test_a_redirection_is_not_followed_with_credentials(self) -> None:
        with StubRegistry() as stub:
            stub.fault = lambda *_: (302, {"Location": "http://elsewhere.example"})
            with pytest.raises(NotRegistryError, match="redirection"):
                level(stub.url, username="u", password=Secret(PASSWORD))


class TestWhoAsks:
    def test_username_and_password(self) -> None:
        with StubRegistry(user=("ü", PASSWORD)) as stub:
            assert level(stub.url, username="ü", password=Secret(PASSWORD)) == "BACKWARD"

    def test_a_token_is_read_anew_for_each_request(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("one\n")

        async def ask(url: str) -> None:
            async with client_of(url, token=Secret(file=file)) as client:
                with pytest.raises(AuthenticationFailedError):
                    await client.level("s")
                file.write_text("two\n")
                assert await client.level("s") == "BACKWARD"

        with StubRegistry(token="two") as stub:
            asyncio.run(ask(stub.url))

    @pytest.mark.parametrize("held", ["\n", " \n", "one\ntwo\n", "one\r\r\n", "tökén\n", " one\n", "o\0ne\n"])
    def test_a_token_that_no_header_can_hold_is_said_and_not_shown(self, tmp_path: Path, held: str) -> None:
        file = tmp_path / "secret"
        file.write_bytes(held.encode())
        with StubRegistry(token="one") as stub, pytest.raises(ConfigurationError, match="registry here") as caught:
            level(stub.url, token=Secret(file=file))
        error: MirrorlakeError = caught.value
        shown = f"{error!r} {error} {dict(error.facts)} {error.__cause__!r} {error.__context__!r}"
        assert not re.search(r"\bone\b|two|tök|\bo\b", shown)

    def test_no_error_shows_a_credential(self) -> None:
        with StubRegistry(user=("somebody", "else")) as stub, pytest.raises(AuthenticationFailedError) as caught:
            level(stub.url, username="me", password=Secret(PASSWORD))

        error: MirrorlakeError = caught.value
        shown = f"{error!r} {error} {dict(error.facts)} {error.__cause__!r} {error.__context__!r}"
        assert PASSWORD not in shown
        assert error.facts["url"] == stub.url


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "own-authority")


def tls_of(authority: Authority, *, asks_for_clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("registry", hosts=["localhost"]).bundle)
    if asks_for_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.file)
    return context


class TestTls:
    def test_only_a_known_authority_is_trusted(self, authority: Authority) -> None:
        with StubRegistry(tls=tls_of(authority)) as stub:
            assert level(stub.url, ca_file=authority.file) == "BACKWARD"
            with pytest.raises(UntrustedBrokerError, match="ca-file"):
                level(stub.url)

    def test_a_client_shows_its_own_certificate(self, authority: Authority) -> None:
        own = authority.issue("client").bundle
        with StubRegistry(tls=tls_of(authority, asks_for_clients=True)) as stub:
            assert level(stub.url, ca_file=authority.file, certificate=own) == "BACKWARD"

            # A server that refuses the handshake closes a connection it has not read to its end: the alert that says
            # why may be lost with it, which is then asked again as every lost connection is.
            def refused() -> bool:
                try:
                    level(stub.url, ca_file=authority.file)
                except RegistryUnavailableError:
                    return False
                except AuthenticationFailedError as error:
                    return "client's certificate" in str(error)
                pytest.fail("let in without a certificate")

            wait_until(refused, "the alert")

    def test_a_file_that_is_no_certificate_names_itself(self, tmp_path: Path) -> None:
        file = tmp_path / "nothing.pem"
        file.write_text("nothing")

        with pytest.raises(ConfigurationError, match=r"ca-file of registry here.*nothing\.pem"):
            level("https://localhost:1", ca_file=file)


class TestWhatIsKept:
    def test_a_second_look_reads_no_version_twice_but_the_newest_and_one_more(self) -> None:
        model = RegistryModel(level="NONE")
        for number in range(20):
            model.register("s", {"schema": record(f"f{number}")})

        async def read(stub: StubRegistry) -> None:
            async with client_of(stub.url) as client:
                await client.history("s")
                first = len(stub.requests)
                model.register("s", {"schema": record("new")})
                assert len((await client.history("s")).versions) == 21
                assert first == 20 + 4
                assert len(stub.requests) - first == 3 + 4

        with StubRegistry(model) as stub:
            asyncio.run(read(stub))

    def test_an_older_version_with_another_id_is_noticed_though_the_newest_is_what_it_was(self) -> None:
        model = RegistryModel(level="NONE")
        for number in range(5):
            model.register("s", {"schema": record(f"f{number}")})

        async def read(url: str) -> None:
            async with client_of(url) as client:
                await client.history("s")
                model.subjects["s"][2].id = 77
                looks = [[each.id for each in (await client.history("s")).versions] for _ in range(5)]
                assert looks[0] == [1, 2, 3, 4, 5], "each look reads the newest and one more"
                assert looks[4] == [1, 2, 77, 4, 5]

        with StubRegistry(model) as stub:
            asyncio.run(read(stub.url))

    def test_one_version_with_another_id_makes_the_look_read_all_subjects_again(self) -> None:
        model = RegistryModel(level="NONE")
        for number in range(5):
            model.register("s", {"schema": record(f"f{number}")})
        model.register("t", {"schema": record("t")})

        async def read(url: str) -> None:
            async with client_of(url) as client:
                await client.histories(["s", "t"])
                model.subjects["s"][3].id, model.subjects["t"][0].id = 6, 4
                histories = await client.histories(["s", "t"])
                assert [[each.id for each in history.versions] for history in histories] == [[1, 2, 3, 6, 5], [4]]

        with StubRegistry(model) as stub:
            asyncio.run(read(stub.url))

    def test_a_subject_made_anew_under_the_same_numbers_is_noticed(self) -> None:
        model = RegistryModel(level="NONE")
        model.register("s", {"schema": record("a")})
        model.register("s", {"schema": record("b")})

        async def read(url: str) -> None:
            async with client_of(url) as client:
                await client.history("s")
                model.delete_for_good("s")
                model.register("s", {"schema": record("c")})
                model.register("s", {"schema": record("d")})
                assert [v.schema.text for v in (await client.history("s")).versions] == [record("c"), record("d")]

        with StubRegistry(model) as stub:
            asyncio.run(read(stub.url))

    def test_absence_is_not_kept(self) -> None:
        model = RegistryModel()

        async def read(url: str) -> None:
            async with client_of(url) as client:
                assert await client.schema_of_id(1) is None
                assert await client.places_of_id(1) == []
                model.register("s", {"schema": record("a")})
                assert await client.schema_of_id(1) == Schema(text=record("a"))
                assert await client.places_of_id(1) == [("s", 1)]

        with StubRegistry(model) as stub:
            asyncio.run(read(stub.url))


def test_references_are_sent_by_the_names_they_have_there() -> None:
    model = RegistryModel()
    model.register("there", {"schema": record("a", name="Inner")})
    reference = Reference(name="Inner", subject="there", version=1, key="")

    async def change(url: str) -> None:
        async with client_of(url) as client:
            await client.register("s", Schema(text=record("b")), [reference])

    with StubRegistry(model) as stub:
        asyncio.run(change(stub.url))

    assert model.subjects["s"][0].body["references"] == [{"name": "Inner", "subject": "there", "version": 1}]


def test_import_is_forced_so_that_nothing_is_deleted_for_good() -> None:
    model = RegistryModel()
    model.register("s", {"schema": record("a")})
    model.delete("s", 1)

    async def change(url: str) -> None:
        async with client_of(url) as client:
            await client.set_mode("s", "IMPORT")

    with StubRegistry(model) as stub:
        asyncio.run(change(stub.url))

    assert len(model.subjects["s"]) == 1


async def _places(guid: UUID, *urls: str, **settings: Any) -> list[tuple[str, int]]:
    async with client_of(*urls, **settings) as client:
        return await client.places_of_guid(guid)


def test_a_guid_is_looked_for_in_the_context_that_is_meant_and_nowhere_else() -> None:
    model = RegistryModel(level="NONE", has_guids=True)
    for subject, fields in (("a", "x"), ("b", "x"), (":.east:c", "x"), (":.east:d", "y")):
        model.register(subject, {"schema": record(fields)})
    x, y, nobodys = (UUID(guid_of({"schema": record(fields)})) for fields in ("x", "y", "z"))
    with StubRegistry(model) as stub:
        found = {
            context: [asyncio.run(_places(guid, stub.url, context=context)) for guid in (x, y, nobodys)]
            for context in ("", "east")
        }
    assert found == {"": [[("a", 1), ("b", 1)], [], []], "east": [[("c", 1)], [("d", 1)], []]}


def test_a_registry_without_guids_knows_none_and_what_is_no_registry_is_not_believed() -> None:
    model = RegistryModel(level="NONE")
    model.register("a", {"schema": record("x")})
    guid = UUID(guid_of({"schema": record("x")}))
    with StubRegistry(model) as stub:
        assert asyncio.run(_places(guid, stub.url)) == []
        stub.fault = lambda _method, path: (404, {}) if path.startswith("/schemas/") else None
        with pytest.raises(NotRegistryError, match="GUID"):
            asyncio.run(_places(guid, stub.url))


def test_that_a_registry_which_gives_guids_cannot_be_asked_for_them_is_no_absence() -> None:
    """As behind a proxy that lets only paths it knows through, or with a node of before an upgrade."""
    model = RegistryModel(level="NONE", has_guids=True)
    model.register("a", {"schema": record("x")})
    guid = UUID(guid_of({"schema": record("y")}))

    async def places(url: str) -> list[tuple[str, int]]:
        async with client_of(url) as client:
            await client.history("a")
            return await client.places_of_guid(guid)

    with StubRegistry(model) as stub:
        assert asyncio.run(places(stub.url)) == []
        stub.fault = lambda _method, path: (404, {}) if path.startswith("/schemas/guids/") else None
        with pytest.raises(NotRegistryError, match="GUID"):
            asyncio.run(places(stub.url))


def test_that_a_registry_with_modes_does_not_know_them_any_more_is_not_believed() -> None:
    model = RegistryModel(level="NONE")
    model.register("a", {"schema": record("x")})

    async def modes(stub: StubRegistry) -> None:
        async with client_of(stub.url) as client:
            assert await client.mode("a") == "READWRITE"
            stub.fault = lambda _method, path: (404, {}) if path.startswith("/mode") else None
            with pytest.raises(NotRegistryError, match="the mode of subject a"):
                await client.mode("a")

    with StubRegistry(model) as stub:
        asyncio.run(modes(stub))
