"""The keys of another program's configuration that are known, and what is said of those that become nothing of ours."""

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.config.reading import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """A program's keys: those that are taken, with what they become, and those that have no equal, with why.

    ``prefixes`` stand for all keys that begin with them, and have no equal either; the first that fits counts.
    """

    program: str
    taken: Mapping[str, str]
    no_equal: Mapping[str, str]
    prefixes: Mapping[str, str]

    def reason_without_equal(self, name: str) -> str:
        """Returns why a key has no equal; for an unknown one, the nearest that is known."""
        if name in self.no_equal:
            return self.no_equal[name]
        for prefix, reason in self.prefixes.items():
            if name.startswith(prefix):
                return reason
        hint = suggestion(name, [*self.taken, *self.no_equal])
        return f"unknown to {self.program}{f': {hint}' if hint else ''}"
