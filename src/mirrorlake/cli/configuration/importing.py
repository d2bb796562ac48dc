"""``mirrorlake config import``: another program's configuration as one of ours."""

import os
import sys
from pathlib import Path

from mirrorlake.config.imports.draft import ImportRefusedError
from mirrorlake.config.imports.reading import BYTES_MAX, Program, import_configuration


def config_import(program: str, file: Path, output: Path | None, *, force: bool) -> int:
    """Writes the configuration on stdout or to ``output``; the counts go to stderr.

    Returns:
        0; 1 where nothing could be translated or written, or what was written must be mended before it loads;
        2 where ``output`` exists and ``force`` is not set, or is the file that is read.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(BYTES_MAX + 1)
        imported = import_configuration(content, Program(program), file=file.name)
    except OSError as error:
        print(f"{file}: cannot be read: {error.strerror or error}", file=sys.stderr)
        return 1
    except ImportRefusedError as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 1
    if not imported.translated:
        print(f"{file}: nothing in it has an equal here", file=sys.stderr)
        return 1
    if output is not None and output.exists() and output.samefile(file):
        print(f"{output}: is the file that is read: write to another one", file=sys.stderr)
        return 2
    if output is None:
        print(imported.text, end="")
    elif code := _write(output, imported.text, force=force):
        return code
    print(f"{imported.translated} setting(s) translated, {imported.remarks} remark(s)", file=sys.stderr)
    for problem in imported.problems:
        print(f"to be mended: {problem}", file=sys.stderr)
    return 1 if imported.problems else 0


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
