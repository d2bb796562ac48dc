"""Whose answer it is that comes from a service's address: of the mirrors of this configuration, or of others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirrorlake.config.resolved import Configuration
from mirrorlake.service.sight.live import LiveService
from mirrorlake.service.sight.served import ServedMirror, served_by

NAMED_MAX = 5
"""Mirrors that one message names."""


def of_this_file(service: LiveService, config: Configuration) -> LiveService:
    """Returns what a service said, without what it said of mirrors that are others than this configuration's. Pure.

    Where it serves none of this configuration's, it is as if none answered, and that is said. A service of a version
    before does not tell its mirrors, and is believed.

    Args:
        service: what it said.
        config: whose mirrors are asked about.
    """
    ours = {each.name: each for each in served_by(config)}
    if service.served is None or not ours:
        return service
    theirs = {each.name: each for each in service.served}
    absent = [name for name in ours if name not in theirs]
    strange = [name for name in ours if name in theirs and not theirs[name].is_same_as(ours[name])]
    if len(absent) + len(strange) == len(ours):
        told = _told(theirs, strange)
        return LiveService(where=service.where, silent_because=f"the mirrorlake that answers at {service.where} {told}")
    known = ours.keys() - set(strange)
    return replace(
        service,
        partitions={key: each for key, each in service.partitions.items() if key[0] in known},
        failed_keeping=tuple(each for each in service.failed_keeping if each.mirror in known),
        doubted_keeping=tuple(each for each in service.doubted_keeping if each.mirror in known),
        unserved=_unserved(service.where, absent, strange),
    )


def _unserved(where: str, absent: Sequence[str], strange: Sequence[str]) -> tuple[str, ...]:
    said = f"the mirrorlake that answers at {where}"
    told = [f"{said} does not serve {_named(absent)}"] if absent else []
    if strange:
        told.append(f"{said} serves {_named(strange)} from or to other places than this file says")
    return tuple(told)


def _told(theirs: Mapping[str, ServedMirror], strange: Sequence[str]) -> str:
    if strange:
        return f"serves {_named(strange)} from or to other places than this file says"
    return f"serves other mirrors than this file has: {_named(list(theirs))}" if theirs else "serves no mirror"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
