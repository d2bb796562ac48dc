"""Values that must never be shown."""

import os
from pathlib import Path

from mirrorlake.errors import ConfigurationError


class Secret:
    """A password or key, from an environment variable or from a file. Prints as stars; travels pickled.

    Args:
        value: the secret itself, where it came from the environment; None where a file holds it.
        file: the file that holds it, read at every ``reveal`` so that a rotated secret is picked up.
        variable: the environment variable whose whole content ``value`` is; empty where it was put together.
    """

    __slots__ = ("_file", "_value", "_variable")

    def __init__(self, value: str | None = None, *, file: Path | None = None, variable: str = "") -> None:
        if (value is None) == (file is None):
            raise ValueError("a secret has either a value or a file")
        self._value = value
        self._file = file
        self._variable = variable if value is not None else ""

    @property
    def is_file(self) -> bool:
        """Whether a file holds it, which may change or not be there yet."""
        return self._file is not None

    @property
    def file(self) -> Path | None:
        """The file that holds it, None where it came from the environment."""
        return self._file

    @property
    def variable(self) -> str:
        """The environment variable it can be read from again by a process with this one's environment; else empty."""
        return self._variable if self._variable and os.environ.get(self._variable) == self._value else ""

    def reveal(self) -> str:
        """Returns the secret in clear; one trailing line break of a file does not belong to it.

        Raises:
            ConfigurationError: the file cannot be read, or is not UTF-8.
        """
        if self._value is not None:
            return self._value
        assert self._file is not None
        try:
            return self._file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            kind = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigurationError(
                f"the secret's file {self._file} cannot be read: {kind}",
                hint="correct the path, or make it a file in UTF-8 that this user may read",
            ) from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._value, self._file) == (other._value, other._file)

    def __hash__(self) -> int:
        return hash((self._value, self._file))

    def __repr__(self) -> str:
        return "Secret(***)"
