"""A schema registry as an HTTP server on loopback, for what the real one of the tests has not.

It answers as Confluent's does, by `registry_model` (which names what was read): IMPORT with ids, contexts, soft and
permanent deletes, modes, 40401 to 40409, 409, 42201 to 42206. Its faults are a test's to choose: it can break off
before or after an answer, answer with a status of its own, and ask for credentials.
"""

import base64
import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from support.registry_model import RefusedError, RegistryModel, Stored, guid_of


@dataclass(frozen=True, slots=True)
class Page:
    """What a proxy says in the registry's place."""

    status: int
    content: bytes


Fault = Callable[[str, str], str | bytes | Page | tuple[int, dict[str, str]] | None]
"""By method and path: ``drop-before`` or ``drop-after`` doing it, a status with headers, the body of a success instead
of the registry's, another server's page, or None for no fault."""

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or shows no certificate, is what a test wants."""


class StubRegistry:
    """Serves a model while it is entered."""

    def __init__(
        self,
        model: RegistryModel | None = None,
        *,
        user: tuple[str, str] | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.model = model or RegistryModel()
        self.requests: list[str] = []
        self.fault: Fault = lambda _method, _path: None
        self._wanted = None
        if user is not None:
            self._wanted = "Basic " + base64.b64encode(":".join(user).encode()).decode()
        if token is not None:
            self._wanted = f"Bearer {token}"
        self._lock = threading.Lock()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet, or each would wait for a delayed acknowledgement
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None:
                pass

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                where = urlsplit(self.path)
                fault = stub.fault(self.command, where.path)
                stub.requests.append(f"{self.command} {self.path}")
                if fault == "drop-before":
                    self.close_connection = True
                    return
                if isinstance(fault, tuple):
                    self._answer(fault[0], {"error_code": fault[0], "message": "as the test wants it"}, fault[1])
                    return
                if isinstance(fault, Page):
                    self._send(fault.status, fault.content)
                    return
                if isinstance(fault, bytes):
                    self._send(200, fault)
                    return
                if stub._wanted is not None and self.headers.get("Authorization") != stub._wanted:
                    self._answer(401, {"error_code": 401, "message": "Unauthorized"})
                    return
                query = {name: values[0] for name, values in parse_qs(where.query).items()}
                body = json.loads(content) if content else {}
                parts = [unquote(part) for part in where.path.strip("/").split("/")]
                try:
                    with stub._lock:
                        status, said = 200, stub._done(self.command, parts, query, body)
                except RefusedError as error:
                    status, said = error.status, {"error_code": error.code, "message": error.message}
                if fault == "drop-after":
                    self.close_connection = True
                    return
                self._answer(status, said)

            do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815  the library's names

            def _answer(self, status: int, said: object, headers: dict[str, str] | None = None) -> None:
                self._send(status, json.dumps(said).encode(), headers)

            def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", MEDIA_TYPE)
                self.send_header("Content-Length", str(len(content)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        return Handler

    def _done(self, method: str, parts: list[str], query: dict[str, str], body: dict[str, Any]) -> object:
        deleted = query.get("deleted") == "true"
        model = self.model
        match method, parts:
            case "GET", ["subjects"]:
                prefix = query.get("subjectPrefix", "")
                return [s for s in model.subjects if s.startswith(prefix) and (model.live(s) or deleted)]
            case "GET", ["schemas"] if model.lists != "none":
                return self._listed(query, deleted=deleted)
            case "GET", ["subjects", subject, "versions"]:
                return model.listed(subject, deleted=deleted)
            case "GET", ["subjects", subject, "versions", version]:
                return self._shown(subject, model.found(subject, int(version), deleted=deleted))
            case "POST", ["subjects", subject, "versions"]:
                made = model.register(subject, _plain(body), body.get("id"))
                return {"id": made.id, **self._guid(made)}
            case "POST", ["subjects", subject]:
                return self._shown(subject, model.look_up(subject, _plain(body)))
            case "DELETE", ["subjects", subject, "versions", version]:
                return model.delete(subject, int(version), permanent=query.get("permanent") == "true")
            case "GET", ["schemas", "ids", id_]:
                held = model.by_id(int(id_), _context(query))
                return {**held.body, **self._guid(held)}
            case "GET", ["schemas", "guids", guid] if model.has_guids:
                held = model.by_guid(guid)
                return {**held.body, **self._guid(held)}
            case "GET", ["schemas", "guids", guid, "ids"] if model.has_guids:
                return [{"context": f".{context}", "id": id_} for context, id_ in model.ids_of_guid(guid)]
            case "GET", ["schemas", "types"]:
                return ["AVRO", "JSON", "PROTOBUF"]
            case "GET", ["schemas", "ids", id_, "versions"]:
                found = model.places(int(id_), _context(query))
                return [{"subject": subject, "version": version} for subject, version in found]
            case _, ["config", *_]:
                return self._config(method, parts[1:], query, body)
            case _, ["mode", *_] if model.has_modes:
                return self._mode(method, parts[1:], query, body)
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _listed(self, query: dict[str, str], *, deleted: bool) -> list[dict[str, Any]]:
        """As `SchemasResource.getSchemas`: by subject and version; a limit above the highest is the default one."""
        prefix, has_pages = query.get("subjectPrefix", ""), self.model.lists == "pages"
        whole = [
            self._shown(subject, each)
            for subject in sorted(self.model.subjects)
            for each in self.model.subjects[subject]
            if (deleted or not each.is_deleted) and (subject.startswith(prefix) or not has_pages)
        ]
        if not has_pages:
            return whole
        limit, begin = int(query.get("limit", "-1")), int(query.get("offset", "0"))
        return whole[begin:][: limit if 0 < limit <= self.model.page_items_max else self.model.page_items_max]

    def _shown(self, subject: str, each: Stored) -> dict[str, Any]:
        return {"subject": subject, "version": each.version, "id": each.id, **self._guid(each), **each.body}

    def _guid(self, each: Stored) -> dict[str, str]:
        return {"guid": guid_of(each.body)} if self.model.has_guids else {}

    def _config(self, method: str, rest: list[str], query: dict[str, str], body: dict[str, Any]) -> object:
        if not rest:
            return {"compatibilityLevel": self.model.level}
        if method == "PUT":
            self.model.set_level(rest[0], body["compatibility"])
            return body
        if rest[0] not in self.model.levels and query.get("defaultToGlobal") != "true":
            raise RefusedError(404, 40408, f"Subject '{rest[0]}' does not have subject-level compatibility configured")
        return {"compatibilityLevel": self.model.level_of(rest[0])}

    def _mode(self, method: str, rest: list[str], query: dict[str, str], body: dict[str, Any]) -> object:
        if not rest:
            return {"mode": self.model.mode}
        if method == "PUT":
            self.model.set_mode(rest[0], body["mode"], force=query.get("force") == "true")
            return body
        if rest[0] not in self.model.modes and query.get("defaultToGlobal") != "true":
            raise RefusedError(404, 40409, f"Subject '{rest[0]}' does not have subject-level mode configured")
        return {"mode": self.model.mode_of(rest[0])}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in ("id", "version")}


def _context(query: dict[str, str]) -> str:
    named = query.get("subject", "")
    return named[2:].partition(":")[0] if named.startswith(":.") else ""
