"""An S3 store on this machine: versitygw over a folder, built by Go once."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from bench.brokers import HOST, make_certificate
from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.embedded.guarded_process import GuardedProcess

VERSION = "1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
_START_SECONDS_MAX = 20.0
_KEY_ID, _SECRET = "bench", "bench-secret"


class S3Gateway:
    """Keeps the bucket ``lake`` as the folder of this name in ``folder``; with TLS where ``is_encrypted``."""

    def __init__(self, folder: Path, *, is_encrypted: bool = False) -> None:
        self._folder = folder
        self._is_encrypted = is_encrypted
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self._port = int(closed.getsockname()[1])
        self._process: GuardedProcess | None = None

    def store(self, more: str = "") -> str:
        """Returns how it stands in a configuration, with ``more`` settings."""
        scheme = "https" if self._is_encrypted else "http"
        if self._is_encrypted:
            more += f", ca-file: {self._folder / 'certificate.pem'}"
        return (
            f"{{type: s3, bucket: lake, region: us-east-1, endpoint: '{scheme}://{HOST}:{self._port}'{more}, "
            f"access-key-id: {{file: {self._folder / 'key-id'}}}, "
            f"secret-access-key: {{file: {self._folder / 'secret-key'}}}}}"
        )

    def start(self) -> Self:
        (self._folder / "lake").mkdir()
        (self._folder / "key-id").write_text(_KEY_ID)
        (self._folder / "secret-key").write_text(_SECRET)
        listen = ["--port", f"{HOST}:{self._port}", "--quiet", "--keep-alive"]
        if self._is_encrypted:
            certificate, bundle = self._folder / "certificate.pem", self._folder / "gateway.pem"
            # Its client takes no authority for a server.
            make_certificate(certificate, bundle, is_authority=False)
            listen += ["--cert", str(certificate), "--key", str(bundle)]
        self._process = GuardedProcess(
            [str(_program()), *listen, "posix", str(self._folder)],
            log_path=self._folder / "gateway.log",
            environ={**os.environ, "ROOT_ACCESS_KEY": _KEY_ID, "ROOT_SECRET_KEY": _SECRET},
        )
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)
            else:
                return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


def _program() -> Path:
    folder = user_cache_folder() / f"versitygw-{VERSION}"
    program = folder / "versitygw"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            raise FileNotFoundError(f"Go, which builds versitygw {VERSION} for the measurement to S3")
        subprocess.run([go, "install", _MODULE], env={**os.environ, "GOBIN": str(folder)}, check=True)
    return program
