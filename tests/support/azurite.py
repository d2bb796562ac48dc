"""Azure Blob Storage as Microsoft's emulator imitates it; a package of npm, installed once per machine."""

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self

from mirrorlake.cache_folder import user_cache_folder
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings

VERSION = "3.37.0"
ACCOUNT = "devstoreaccount1"
# Public: the one account every emulator has.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER = "lake"
_PROTOCOL = "2021-08-06"
_START_SECONDS_MAX = 60.0


class AzuriteUnusableError(Exception):
    """It is not there and could not be installed."""


class Azurite:
    """A running emulator with one container."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self._port = int(closed.getsockname()[1])
        self._process: GuardedProcess | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}/{ACCOUNT}"

    def settings(self) -> AzureSettings:
        """Settings of a place in the container that nobody else uses."""
        return AzureSettings(
            account=ACCOUNT,
            container=CONTAINER,
            prefix=uuid.uuid4().hex,
            endpoint=self.endpoint,
            account_key=Secret(KEY),
        )

    def __enter__(self) -> Self:
        log = self._folder / "azurite.log"
        where = ["--blobPort", str(self._port), "--location", str(self._folder)]
        self._process = GuardedProcess(
            [str(_program()), "--silent", "--skipApiVersionCheck", "--disableTelemetry", *where], log_path=log
        )
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while True:
            try:
                self._make_container()
            except OSError:
                assert time.monotonic() < give_up_at, log.read_text()
                time.sleep(0.2)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()

    def _make_container(self) -> None:
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _PROTOCOL}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + f"{named}/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        address = f"{self.endpoint}/{CONTAINER}?restype=container"
        request = urllib.request.Request(address, method="PUT", headers={**headers, "Content-Length": "0"})
        urllib.request.urlopen(request, timeout=20).close()


def _program() -> Path:
    folder = user_cache_folder() / f"azurite-{VERSION}"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    if program.exists():
        return program
    npm = shutil.which("npm")
    if npm is None:
        raise AzuriteUnusableError(f"no npm on this machine, so azurite {VERSION} cannot be installed")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "install", "--silent", "--prefix", str(folder), f"azurite@{VERSION}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AzuriteUnusableError(f"`npm install azurite@{VERSION}` failed:\n{done.stderr}")
    return program
