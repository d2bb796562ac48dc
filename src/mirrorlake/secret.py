"""Values that must never be shown."""

from pathlib import Path

from mirrorlake.errors import ConfigurationError


class Secret:
    """A password or key, from an environment variable or from a file. Prints as stars; travels pickled.

    Args:
        value: the secret itself, where it came from the environment; None where a file holds it.
        file: the file that holds it, read at every ``reveal`` so that a rotated secret is picked up.
    """

    __slots__ = ("_file", "_value")

    def __init__(self, value: str | None = None, *, file: Path | None = None) -> None:
        if (value is None) == (file is None):
            raise ValueError("a secret has either a value or a file")
        self._value = value
        self._file = file

    @property
    def is_file(self) -> bool:
        """Whether a file holds it, which may change or not be there yet."""
        return self._file is not None

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
            raise ConfigurationError(f"the secret's file {self._file} cannot be read: {kind}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._value, self._file) == (other._value, other._file)

    def __hash__(self) -> int:
        return hash((self._value, self._file))

    def __repr__(self) -> str:
        return "Secret(***)"
