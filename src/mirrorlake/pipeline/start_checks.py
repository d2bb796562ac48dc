"""What is looked at before a JVM is started: Spark would say it late, in a Java stack, or not at all."""

import os
import socket
from pathlib import Path

from mirrorlake.errors import ConfigurationError
from mirrorlake.pipeline.settings import SessionSettings

LOOPBACK = "127.0.0.1"


def check_settings(settings: SessionSettings) -> None:
    """Checks what this machine must have for a session.

    Raises:
        ConfigurationError: the folder of the event log, or the port of Spark's page, cannot be used.
    """
    if settings.event_log is not None:
        _check_event_log(settings.event_log)
    if settings.ui_port is not None:
        _check_port(settings.ui_port)


def check_page(settings: SessionSettings, address: str | None) -> None:
    """Checks that Spark's page is where it was wanted: where a port is taken, Spark takes one of the next, silently.

    Args:
        settings: what was wanted.
        address: of the page, as Spark says it.

    Raises:
        ConfigurationError: it is elsewhere.
    """
    if settings.ui_port and address is not None and not address.endswith(f":{settings.ui_port}"):
        raise _taken(settings.ui_port, f"Spark's page went to {address}")


def _check_event_log(folder: Path) -> None:
    setting = f"engine.event-log: {folder}"
    if not folder.exists():
        raise ConfigurationError(f"{setting} does not exist", hint="make the folder, or leave `engine.event-log` out")
    if not folder.is_dir():
        raise ConfigurationError(f"{setting} is not a folder", hint="name a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError(f"{setting} cannot be written to", hint="give this user the right to make files there")


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Spark's own server does: connections that have just ended are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise _taken(port, (error.strerror or str(error)).lower()) from error


def _taken(port: int, because: str) -> ConfigurationError:
    return ConfigurationError(
        f"engine.ui: port {port} of {LOOPBACK} cannot be had: {because}",
        hint="choose a port that is free, or `off`",
    )
