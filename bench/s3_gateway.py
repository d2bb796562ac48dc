"""An S3 store on this machine: versitygw over a folder, built by Go once."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.embedded.guarded_process import GuardedProcess

VERSION = "1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
_START_SECONDS_MAX = 20.0
_KEY_ID, _SECRET = "bench", "bench-secret"


class S3Gateway:
    """Keeps the bucket ``lake`` as the folder of this name in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self._port = int(closed.getsockname()[1])
        self._process: GuardedProcess | None = None

    @property
    def store(self) -> str:
        """How it stands in a configuration."""
        return (
            f"{{type: s3, bucket: lake, region: us-east-1, endpoint: 'http://127.0.0.1:{self._port}', "
            f"access-key-id: {{file: {self._folder / 'key-id'}}}, "
            f"secret-access-key: {{file: {self._folder / 'secret-key'}}}}}"
        )

    def start(self) -> Self:
        (self._folder / "lake").mkdir()
        (self._folder / "key-id").write_text(_KEY_ID)
        (self._folder / "secret-key").write_text(_SECRET)
        self._process = GuardedProcess(
            [
                str(_program()),
                "--port",
                f"127.0.0.1:{self._port}",
                "--quiet",
                "--keep-alive",
                "posix",
                str(self._folder),
            ],
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
