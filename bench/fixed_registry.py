"""A schema registry that holds one subject with one version and changes nothing, on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class FixedRegistry:
    """Answers what a mirror asks about the subject, while it is entered.

    Args:
        subject: its name.
        schema: the text of its only version.
        schema_id: the version's id.
    """

    def __init__(self, subject: str, schema: str, schema_id: int) -> None:
        version = {"subject": subject, "version": 1, "id": schema_id, "schema": schema}
        self._answers: dict[str, object] = {
            "/subjects": [subject],
            f"/subjects/{subject}/versions": [1],
            f"/subjects/{subject}/versions/1": version,
            f"/schemas/ids/{schema_id}/versions": [{"subject": subject, "version": 1}],
            f"/schemas/ids/{schema_id}": {"schema": schema},
            "/config": {"compatibilityLevel": "NONE"},
            f"/config/{subject}": {"compatibilityLevel": "NONE"},
            "/mode": {"mode": "READWRITE"},
            f"/mode/{subject}": {"mode": "READWRITE"},
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

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
        answers = self._answers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                found = answers.get(urlsplit(self.path).path)
                said = found if found is not None else {"error_code": 40403, "message": "not found"}
                content = json.dumps(said).encode()
                self.send_response(200 if found is not None else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler
