"""Object stores as servers of their own: versitygw and MinIO, built by Go, and moto, a Python package."""

import os
import socket
import sys
import time
import urllib.error
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import obstore
from obstore.store import S3Store

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.embedded.guarded_process import GuardedProcess
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import S3Settings
from support.certificates import Issued
from support.go_programs import VERSITYGW, GoProgram, built

ACCESS_KEY, SECRET_KEY = "archive-writer", "not-a-secret-at-all"
REGION = "us-east-1"
BUCKET = "lake"
_START_SECONDS_MAX = 60.0


def settings_at(
    endpoint: str,
    prefix: str,
    *,
    ca_file: Path | None = None,
    addressing: Addressing = Addressing.PATH,
    content_check: ContentCheck | None = None,
) -> S3Settings:
    """Settings of a place in the bucket of such a server."""
    return S3Settings(
        ca_file=ca_file,
        addressing=addressing,
        content_check=content_check,
        bucket=BUCKET,
        prefix=prefix,
        region=REGION,
        endpoint=endpoint,
        access_key_id=Secret(ACCESS_KEY),
        secret_access_key=Secret(SECRET_KEY),
    )


class ObjectServer(ABC):
    """A server on loopback that speaks the S3 protocol, with one bucket. It may be stopped and started again."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self._process: GuardedProcess | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """How it is started."""

    def environ(self) -> Mapping[str, str]:
        return {}

    def prepare(self) -> None:  # noqa: B027  most servers take a folder for a bucket, one does not
        """Makes the bucket before the start, where that is possible."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(
        self,
        *,
        endpoint: str | None = None,
        prefix: str | None = None,
        ca_file: Path | None = None,
        addressing: Addressing = Addressing.PATH,
        content_check: ContentCheck | None = None,
    ) -> S3Settings:
        """Settings of a place in the bucket that nobody else uses."""
        return settings_at(
            endpoint or self.endpoint,
            uuid.uuid4().hex if prefix is None else prefix,
            ca_file=ca_file,
            addressing=addressing,
            content_check=content_check,
        )

    def start(self) -> Self:
        self.prepare()
        log = self.folder / f"{self.name}.log"
        self._process = GuardedProcess(self.command(), log_path=log, environ={**os.environ, **self.environ()})
        give_up_at = time.monotonic() + _START_SECONDS_MAX
        while not self._answers():
            assert self._process.exit_code is None, log.read_text()
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def client(self) -> S3Store:
        """The library's own client of the whole bucket, to look behind ours."""
        made = S3Store(
            BUCKET,
            config={
                "region": REGION,
                "endpoint": self.endpoint,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            client_options={"allow_http": True},
        )
        assert isinstance(made, S3Store)
        return made

    def keys(self, prefix: str) -> list[str]:
        return sorted(meta["path"] for page in obstore.list(self.client(), prefix) for meta in page)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except (urllib.error.URLError, OSError):
            return False
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Versitygw(ObjectServer):
    """A gateway to a folder; what is written survives its end.

    With ``certificate`` it speaks TLS, with ``domain`` buckets may be named in the host below it.
    """

    name = "versitygw"

    def __init__(self, folder: Path, *, certificate: Issued | None = None, domain: str | None = None) -> None:
        super().__init__(folder)
        self._certificate = certificate
        self._domain = domain

    @property
    def endpoint(self) -> str:
        return f"{'http' if self._certificate is None else 'https'}://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        program = built(VERSITYGW)
        where = ["--port", f"127.0.0.1:{self.port}", "--quiet", "--keep-alive"]
        if self._certificate is not None:
            where += ["--cert", str(self.folder / "certificate.pem"), "--key", str(self.folder / "key.pem")]
        if self._domain is not None:
            where += ["--virtual-domain", f"{self._domain}:{self.port}"]
        return [str(program), *where, "posix", str(self.folder / "buckets")]

    def environ(self) -> Mapping[str, str]:
        return {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}

    def prepare(self) -> None:
        (self.folder / "buckets" / BUCKET).mkdir(parents=True, exist_ok=True)
        if self._certificate is not None:
            (self.folder / "certificate.pem").write_text(self._certificate.certificate_pem)
            (self.folder / "key.pem").write_text(self._certificate.key_pem())

    def _answers(self) -> bool:
        if self._certificate is None:
            return super()._answers()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True


class Minio(ObjectServer):
    """MinIO (AGPL: only ever a server of tests); what is written survives its end."""

    name = "minio"

    def command(self) -> Sequence[str]:
        version = "0.0.0-20260212201848-7aac2a2c5b7c"
        program = built(GoProgram("github.com/minio/minio", version, "minio"))
        return [str(program), "server", "--quiet", "--address", f"127.0.0.1:{self.port}", str(self.folder / "minio")]

    def environ(self) -> Mapping[str, str]:
        return {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY, "CI": "true"}

    def prepare(self) -> None:
        (self.folder / "minio" / BUCKET).mkdir(parents=True, exist_ok=True)


class Moto(ObjectServer):
    """Amazon's side as the moto project imitates it, in memory: gone when it ends."""

    name = "moto"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    def start(self) -> Self:
        super().start()
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{BUCKET}", method="PUT"), timeout=20).close()
        return self


def _free_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])
