"""Configurations given as text: loads them, or shows how they are refused."""

import textwrap

import pytest

from mirrorlake.config.loading import parse_configuration
from mirrorlake.config.problems import ConfigurationErrors, Place
from mirrorlake.config.resolved import Configuration

SOMEWHERE = Place(file="c.yaml", line=1, column=1, field="x")

CLUSTERS = """
clusters:
  east: {bootstrap-servers: "east:9092"}
  west: {bootstrap-servers: "west:9092"}
stores:
  lake: {type: filesystem, root: /lake}
"""


def load(text: str, /, **environ: str) -> Configuration:
    """Returns the configuration in a text; keyword arguments are the environment variables."""
    return parse_configuration(textwrap.dedent(text).encode(), file="c.yaml", environ=environ)


def refusals(text: str, /, **environ: str) -> list[str]:
    """Returns the lines that refuse a text, each without the file's name."""
    with pytest.raises(ConfigurationErrors) as caught:
        load(text, **environ)
    return [line.removeprefix("c.yaml:") for line in str(caught.value).splitlines()]


def messages(text: str, /, **environ: str) -> list[str]:
    """Returns the refusing lines without file and line: from the field on."""
    return [line.split(": ", 1)[1] for line in refusals(text, **environ)]


def native(mirrors: str) -> str:
    """Returns a file of the native form with clusters east and west, the store lake, and these mirrors."""
    return CLUSTERS + "mirrors:\n" + textwrap.indent(textwrap.dedent(mirrors).strip("\n"), "  ") + "\n"


def kafka(topics: str = "[orders]", destination: str = "", source: str = "") -> str:
    """Returns a file with one mirror from east to west."""
    return native(f"""
        - name: m
          source: {{cluster: east, topics: {topics}{source}}}
          destinations: [{{type: kafka, cluster: west{destination}}}]
        """)


def archive(destination: str = "") -> str:
    """Returns a file with one mirror from east to the store lake."""
    return native(f"""
        - name: m
          source: {{cluster: east, topics: [orders]}}
          destinations: [{{type: archive, store: lake{destination}}}]
        """)


def v3(destination: str, mirrors: str) -> str:
    """Returns a file of the mirror-v3 form."""
    return (
        f"destination: {destination}\nmirrors:\n" + textwrap.indent(textwrap.dedent(mirrors).strip("\n"), "  ") + "\n"
    )
