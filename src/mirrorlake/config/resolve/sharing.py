"""Settings that stand once and hold in several places: overlays of the file, defaults of its mirrors, and their groups.

What is nearer wins: a mirror's own setting before its group's defaults, those before the file's, an overlay before all
that it lies over. Mappings are merged key by key, at every depth; anything else, a list too, is taken whole from the
nearer one. A part that was brought from elsewhere keeps its place in errors (`Document.origins`).
"""

from collections.abc import Iterator, Mapping

from mirrorlake.config.checking import check, entries, read_or_note
from mirrorlake.config.document import Document, Tree
from mirrorlake.config.expansion import UnsetText
from mirrorlake.config.native_form import MirrorForm, MirrorGroupForm, MirrorGroupHeadForm
from mirrorlake.config.problems import FieldPath, field_name
from mirrorlake.config.reading import found, suggestion
from mirrorlake.config.values.names import read_name

OVERLAYS = "overlays"
_NOT_OVERLAID = (OVERLAYS,)
_NOT_SHARED = ("name",)


def lay_over(document: Document, name: str) -> None:
    """Lays one of the file's overlays over its root, and forgets the others and what is wrong with them.

    Args:
        document: the file; its tree is replaced.
        name: of the overlay; empty for none.
    """
    tree = document.tree
    assert isinstance(tree, dict)
    overlays = tree.get(OVERLAYS, {})
    if not isinstance(overlays, dict):
        document.note((OVERLAYS,), f"expected a mapping of names, found {found(overlays)}")
        return
    for other in overlays.keys() - {name}:
        _forget_problems(document, (OVERLAYS, other))
        read_or_note(read_name, other, document.place((OVERLAYS, other)), document.problems)
    if not name:
        return
    if name not in overlays:
        hint = suggestion(name, overlays) if overlays else "the file has no overlays"
        document.note((OVERLAYS,), f"there is no overlay `{name}`, which MIRRORLAKE_OVERLAY asks for", hint)
        return
    overlay, path = overlays[name], (OVERLAYS, name)
    if not isinstance(overlay, dict):
        document.note(path, f"expected a mapping, found {found(overlay)}")
        return
    for key in overlay:
        if key in _NOT_OVERLAID:
            document.note((*path, key), "has no meaning in an overlay")
    over = {key: value for key, value in overlay.items() if key not in _NOT_OVERLAID}
    document.tree = _merged(document, over, tree, path=(), over_path=path, under_path=())


def mirror_entries(document: Document) -> Iterator[tuple[FieldPath, Tree]]:
    """Yields path and value of each mirror of the file, those of groups last, each with what it shares."""
    tree = document.tree
    assert isinstance(tree, dict)
    defaults = _defaults(tree, (), document)
    if "groups" not in tree or "mirrors" in tree:
        for path, mirror in entries(tree, "mirrors", document):
            yield path, _with_defaults(document, mirror, defaults, path=path, defaults_path=("defaults",))
    if "groups" not in tree:
        return
    names: list[Tree] = []
    for path, group in entries(tree, "groups", document):
        if isinstance(group, dict) and isinstance(name := group.get("name"), str):
            if name in names:
                document.note((*path, "name"), f"the name {found(name)} is taken", "names of groups are unique")
            names.append(name)
        yield from _of_group(document, group, path, defaults)


def _of_group(
    document: Document, group: Tree, path: FieldPath, defaults: Mapping[str, Tree]
) -> Iterator[tuple[FieldPath, Tree]]:
    head = {key: value for key, value in group.items() if key != "mirrors"} if isinstance(group, dict) else group
    check(MirrorGroupHeadForm, head, path, document, shown_as=MirrorGroupForm)
    if not isinstance(group, dict):
        return
    own, own_path = dict(_defaults(group, path, document)), (*path, "defaults")
    if "enabled" in group:
        if "enabled" in own:
            document.note(
                (*own_path, "enabled"), "has no meaning beside `enabled` of the group", "leave one of them out"
            )
        own["enabled"] = group["enabled"]
        document.origins[*own_path, "enabled"] = (*path, "enabled")
    shared = _merged(document, own, defaults, path=own_path, over_path=own_path, under_path=("defaults",))
    for where, mirror in entries(group, "mirrors", document, path=path):
        yield where, _with_defaults(document, mirror, shared, path=where, defaults_path=own_path)


def _defaults(tree: Mapping[str, Tree], path: FieldPath, document: Document) -> Mapping[str, Tree]:
    """Returns the defaults at the root or in a group, without what no mirror has; notes that at once."""
    where = (*path, "defaults")
    defaults = tree.get("defaults", {})
    if not isinstance(defaults, dict):
        if not isinstance(defaults, UnsetText):
            document.note(where, f"expected a mapping, found {found(defaults)}")
        return {}
    known = [field.alias or name for name, field in MirrorForm.model_fields.items()]
    for key in defaults:
        if key in _NOT_SHARED:
            document.note((*where, key), "cannot be shared", "each mirror has a name of its own")
        elif key not in known:
            document.note((*where, key), "is not a known field", suggestion(key, known))
    return {key: value for key, value in defaults.items() if key in known and key not in _NOT_SHARED}


def _with_defaults(
    document: Document, mirror: Tree, defaults: Mapping[str, Tree], *, path: FieldPath, defaults_path: FieldPath
) -> Tree:
    if not isinstance(mirror, dict):
        return mirror
    return _merged(document, mirror, defaults, path=path, over_path=path, under_path=defaults_path)


def _merged(
    document: Document,
    over: Mapping[str, Tree],
    under: Mapping[str, Tree],
    *,
    path: FieldPath,
    over_path: FieldPath,
    under_path: FieldPath,
) -> dict[str, Tree]:
    """Returns both mappings as the one at ``path``, and notes where each part that stands elsewhere came from."""
    merged: dict[str, Tree] = {}
    for key in [*under, *(key for key in over if key not in under)]:
        upper, lower = over.get(key), under.get(key)
        if isinstance(upper, dict) and isinstance(lower, dict):
            paths = {"path": (*path, key), "over_path": (*over_path, key), "under_path": (*under_path, key)}
            merged[key] = _merged(document, upper, lower, **paths)
            continue
        origin = (*over_path, key) if key in over else (*under_path, key)
        merged[key] = upper if key in over else lower
        if origin != (*path, key):
            document.origins[*path, key] = origin
    return merged


def _forget_problems(document: Document, path: FieldPath) -> None:
    name = field_name(path)
    problems = document.problems
    problems.found = [
        each for each in problems.found if not (each.place.field + ".").startswith((name + ".", name + "["))
    ]
