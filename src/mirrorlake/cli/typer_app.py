"""A Typer application whose help shows no type beside flags, which take no value."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class App(typer.Typer):
    """A Typer application; ``--help`` and other flags stand in its help without ``<bool>`` beside them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Returns a decorator as `typer.Typer.command` does."""
        return super().command(name, cls=_Command, **settings)


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _without_flag_types(super().get_params(ctx))


def _without_flag_types(params: list[Any]) -> list[Any]:
    """Returns options and arguments; Typer makes some flags by itself, where no ``metavar`` can be given."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params
