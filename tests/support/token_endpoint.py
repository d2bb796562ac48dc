"""A token endpoint of an identity provider: signs JWTs of a few seconds for clients it knows, shows its keys."""

import base64
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "https://issuer.test"
AUDIENCE = "kafka.test"
CLIENT = "mirror-client"
CLIENT_SECRET = "s3cret/of+the=client"
SCOPE = "mirror"


class TokenEndpoint:
    """Listens on loopback. ``life_seconds`` may be changed at any time; ``answer_status`` makes it fail."""

    def __init__(self, life_seconds: float = 60.0) -> None:
        self.life_seconds = life_seconds
        self.answer_status: int | None = None
        self.audience = AUDIENCE
        self.issued = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, endpoint.keys())

            def do_POST(self) -> None:
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self._send(*endpoint.answer(self.headers.get("Authorization", ""), form))

            def _send(self, status: int, body: object) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/keys"

    def keys(self) -> object:
        numbers = self._key.public_key().public_numbers()
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "kid": "1",
                    "use": "sig",
                    "alg": "RS256",
                    "n": _number(numbers.n),
                    "e": _number(numbers.e),
                }
            ]
        }

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, object]:
        if self.answer_status is not None:
            return self.answer_status, {"error": "temporarily_unavailable"}
        expected = "Basic " + base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        if authorization != expected:
            return 401, {"error": "invalid_client", "error_description": authorization}
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != [SCOPE]:
            return 400, {"error": "invalid_scope"}
        self.issued += 1
        return 200, {"access_token": self.token(), "expires_in": self.life_seconds, "token_type": "Bearer"}

    def token(self, *, subject: str = CLIENT, life_seconds: float | None = None) -> str:
        now = time.time()
        claims = {
            "iss": ISSUER,
            "aud": self.audience,
            "sub": subject,
            "scope": SCOPE,
            "iat": int(now) - 1,
            "exp": int(now + (self.life_seconds if life_seconds is None else life_seconds)),
        }
        signed = f"{_part({'alg': 'RS256', 'kid': '1', 'typ': 'JWT'})}.{_part(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _part(content: object) -> str:
    return _base64(json.dumps(content).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _number(number: int) -> str:
    return _base64(number.to_bytes((number.bit_length() + 7) // 8, "big"))
