"""``mirrorlake config import``: another program's configuration as one of ours."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorlake.cli.start import ask
from mirrorlake.config.imports.draft import Draft, Entry, ImportRefusedError
from mirrorlake.config.imports.reading import BYTES_MAX, Imported, Program, read_draft, rendered
from mirrorlake.config.loading import TO_READ, parse_configuration
from mirrorlake.config.problems import ConfigurationErrors

if TYPE_CHECKING:
    from mirrorlake.service.taking_over.taking import Taken


def config_import(
    program: str,
    file: Path,
    output: Path | None,
    *,
    force: bool,
    take_offsets: bool = False,
    offsets_topic: str | None = None,
) -> int:
    """Writes the configuration on stdout or to ``output``; the counts go to stderr.

    Args:
        program: whose file it is.
        file: the other program's configuration.
        output: None for stdout.
        force: replaces ``output``.
        take_offsets: reads where the program stood, and has the copies begin there. Reads the clusters only.
        offsets_topic: in which topic that is stored; None where the file says it.

    Returns:
        0; 1 where nothing could be translated or written, or what was written must be mended before it is used;
        2 where ``output`` exists and ``force`` is not set, or is the file that is read.

    Raises:
        MirrorlakeError: positions are to be taken, and the program runs, or a cluster could not be read.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
        draft = read_draft(content, Program(program))
    except OSError as error:
        print(f"{file}: cannot be read: {error.strerror or error} ({TO_READ})", file=sys.stderr)
        return 1
    except ImportRefusedError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 1
    imported = rendered(draft, Program(program), file=file.name)
    if not imported.translated:
        print(f"{file}: nothing in it has an equal here", file=sys.stderr)
        return 1
    if output is not None and output.exists() and output.samefile(file):
        print(f"{output}: is the file that is read: write to another one", file=sys.stderr)
        return 2
    if take_offsets and not any(mirror.former for mirror in draft.mirrors):
        reason = "--take-offsets reads the topics of Kafka Connect, and this program keeps no positions there"
        print(f"{file}: {reason}: write them under `start` of each source, as `{{offsets: …}}`", file=sys.stderr)
        return 1
    if take_offsets:
        try:
            imported = _with_offsets(draft, imported, Program(program), file, offsets_topic)
        except ConfigurationErrors as errors:
            for found in errors.problems:
                print(f"{file}: {found.message}{f' ({found.hint})' if found.hint else ''}", file=sys.stderr)
            print("--take-offsets reads the clusters, so the configuration must be whole", file=sys.stderr)
            return 1
    if output is None:
        print(imported.text, end="")
    elif code := _write(output, imported.text, force=force):
        return code
    print(f"{imported.translated} setting(s) translated, {imported.remarks} remark(s)", file=sys.stderr)
    for problem in imported.problems:
        print(f"to be mended: {problem}", file=sys.stderr)
    return 1 if imported.problems else 0


def _with_offsets(
    draft: Draft, imported: Imported, program: Program, file: Path, offsets_topic: str | None
) -> Imported:
    """Returns the configuration with the positions of the program in it.

    Raises:
        ConfigurationErrors: without them it does not load, such as for a variable that is not set.
        MirrorlakeError: see ``take_over``.
    """
    config = parse_configuration(imported.text.encode(), file=file.name, environ=os.environ)
    from mirrorlake.service.taking_over.taking import take_over

    formers = {
        mirror.name: replace(mirror.former, offsets_topic=offsets_topic or mirror.former.offsets_topic)
        for mirror in draft.mirrors
        if mirror.former is not None
    }
    taken = ask(take_over(config, formers))
    return rendered(draft, program, file=file.name, problems=_put(draft, taken))


def _put(draft: Draft, taken: "dict[str, Taken]") -> list[str]:
    """Puts what was found into the draft; returns what is to be mended."""
    problems = []
    for mirror in draft.mirrors:
        if (found := taken.get(mirror.name)) is None:
            continue
        mirror.start_offsets = found.offsets
        for place, text in found.remarks:
            draft.remark(Entry(0, f"{mirror.name}, {place}", ""), text)
        if mirror.start and found.offsets:
            text = "offsets were taken in its place: a partition that is added begins at the start of its log"
            draft.remark(Entry(0, f"{mirror.name}, start: {mirror.start}", ""), text)
        problems += [f"{mirror.name}: {problem}" for problem in found.problems]
    return problems


def _write(output: Path, text: str, *, force: bool) -> int:
    """Writes the file whole, or not at all; returns the exit code."""
    staged = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        try:
            staged.write_text(text, encoding="utf-8")
            if force:
                staged.replace(output)
            else:
                os.link(staged, output)
        finally:
            staged.unlink(missing_ok=True)
    except FileExistsError:
        print(f"{output}: exists already (`--force` replaces it)", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{output}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
