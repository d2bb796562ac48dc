"""Places where nothing good answers: addresses without Kafka, and folders that cannot be written."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


def dead_port() -> int:
    """A port where nothing listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


class _QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextlib.contextmanager
def http_server() -> Iterator[int]:
    """The port of a web server."""
    with HTTPServer(("127.0.0.1", 0), _QuietHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """The port of something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield int(server.getsockname()[1])


@contextlib.contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[Path | None]:
    """A file system in memory that is soon full; None where neither root nor sudo without password may mount."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=777", "tmpfs", str(folder)]
    prefix = next((way for way in ([], ["sudo", "-n"]) if _succeeds([*way, *mount])), None)
    if prefix is None:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run([*prefix, "umount", "--lazy", str(folder)], check=True)


def _succeeds(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unwritable_folder(folder: Path) -> Path:
    """A folder that is there and takes no file from this user."""
    if os.geteuid() == 0:
        return Path("/sys/kernel")  # root may write anywhere but where there is nothing to write to
    folder.mkdir(mode=0o555)
    return folder
