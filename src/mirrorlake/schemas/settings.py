"""How to talk to one schema registry, as the configuration says it. Can be pickled into a Spark task."""

from dataclasses import dataclass
from pathlib import Path

from mirrorlake.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """A registry that speaks Confluent's REST API.

    Attributes:
        name: what the configuration calls it.
        urls: http or https addresses without user info, at least one; each serves when another does not answer.
        username: for basic authentication, with ``password``; None for none.
        password: see there.
        token: sent as a bearer token; None for none. Never beside ``username``.
        ca_file: authorities to trust beside the system's, in PEM; None for the system's alone.
        certificate: this client's certificate chain in PEM, with ``key``; None for none.
        key: its private key in PEM.
        context: whose subjects are meant, `:.context:subject` in the API; empty for the default context.
    """

    name: str
    urls: tuple[str, ...]
    username: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    context: str = ""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("a registry has at least one url")
