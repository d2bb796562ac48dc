"""Environment variables that are settings. A value that cannot be read is an error, never ignored.

Other variables that begin with ``MIRRORLAKE_`` are left alone: files may refer to them, and Kubernetes sets
some for a service of that name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from mirrorlake.config.checking import read_or_note
from mirrorlake.config.problems import Place, ProblemList
from mirrorlake.config.process_settings import ListenAddress
from mirrorlake.config.reading import read_choice, read_text, refuse
from mirrorlake.config.values.addresses import read_listen
from mirrorlake.config.values.names import read_name
from mirrorlake.config.values.times import read_heartbeat

T = TypeVar("T")


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log lines look: for eyes or for machines."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What a variable says instead of the file; None inside means switched off."""

    listen: ListenAddress | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the environment says, None where a variable is not set.

    ``metrics`` and ``heartbeat`` hold in both forms and before the file; the ``v3_`` values hold in the
    mirror-v3 form, where the file says nothing. Port 0 and 0 seconds switch off, as in mirror-v3. ``overlay`` names one
    of the native form's, and is empty for none.
    """

    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    cache_folder: Path | None = None
    metrics: Override | None = None
    heartbeat: Override | None = None
    overlay: str = ""
    v3_metrics_port: int | None = None
    v3_heartbeat_seconds: int | None = None


VARIABLES: Mapping[str, tuple[str, str, str]] = {
    "MIRRORLAKE_LOG_LEVEL": ("`debug`, `info`, `warning` or `error`", "`info`", "How much is logged."),
    "MIRRORLAKE_LOG_FORMAT": ("`text` or `json`", "`text`", "How log lines look."),
    "MIRRORLAKE_CACHE": (
        "absolute path",
        "the user's cache folder",
        "Where compiled kernels, class archives and fetched jars are kept.",
    ),
    "MIRRORLAKE_METRICS": ("`host:port` or `off`", "", "Goes before `service.metrics`, in both forms."),
    "MIRRORLAKE_HEARTBEAT": ("duration or `off`", "", "Goes before `service.heartbeat`, in both forms."),
    "MIRRORLAKE_OVERLAY": ("a key of `overlays`", "none", "Which overlay is laid over a file of the native form."),
    "MIRROR_V3_METRICS_PORT": ("port, 0 for off", "9090", "Metrics of the mirror-v3 form."),
    "MIRROR_V3_HEARTBEAT_SECS": ("whole seconds, 0 for off", "30", "Heartbeat of the mirror-v3 form."),
}
"""Name to what it takes, its default and its meaning."""


CONFIG_VARIABLE = "MIRRORLAKE_CONFIG"
"""Names the file itself, so it is no setting; the verbs read it where they are given none."""


def read_environment(environ: Mapping[str, str]) -> Environment:
    """Returns the settings among the environment variables; an empty variable is as good as none.

    Raises:
        ConfigurationErrors: one problem per variable whose value cannot be read, naming the variable.
    """
    problems = ProblemList()

    def read(name: str, reader: Callable[[object], T]) -> T | None:
        text = environ.get(name, "")
        place = Place(file="environment", line=0, column=0, field=name)
        return read_or_note(reader, text, place, problems) if text else None

    environment = Environment(
        log_level=read("MIRRORLAKE_LOG_LEVEL", read_choice(LogLevel)) or LogLevel.INFO,
        log_format=read("MIRRORLAKE_LOG_FORMAT", read_choice(LogFormat)) or LogFormat.TEXT,
        cache_folder=read("MIRRORLAKE_CACHE", _folder),
        metrics=read("MIRRORLAKE_METRICS", lambda text: Override(listen=read_listen(text))),
        heartbeat=read("MIRRORLAKE_HEARTBEAT", lambda text: Override(seconds=read_heartbeat(text))),
        overlay=read("MIRRORLAKE_OVERLAY", read_name) or "",
        v3_metrics_port=read("MIRROR_V3_METRICS_PORT", _whole_number(65535)),
        v3_heartbeat_seconds=read("MIRROR_V3_HEARTBEAT_SECS", _whole_number(86400)),
    )
    problems.raise_if_any()
    return environment


def _folder(value: object) -> Path:
    folder = Path(read_text(value))
    if not folder.is_absolute():
        refuse("expected an absolute path")
    return folder


def _whole_number(maximum: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        text = read_text(value)
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > maximum:
            refuse(f"expected a whole number from 0 to {maximum}, found `{text}`")
        return int(text)

    return read
