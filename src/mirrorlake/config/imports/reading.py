"""Which programs' files are read, and how the bytes of one become our configuration."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirrorlake.config.imports.draft import Draft, ImportRefusedError
from mirrorlake.config.imports.mirus import read_mirus
from mirrorlake.config.imports.mm2 import read_mm2
from mirrorlake.config.imports.rendering import written
from mirrorlake.config.imports.viooh import read_viooh

BYTES_MAX = 4 * 1024**2
"""Far above any real file."""


class Program(StrEnum):
    """Programs whose configuration is read."""

    MM2 = "mm2"
    MIRUS = "mirus"
    VIOOH = "viooh"


_READERS: Mapping[Program, Callable[[str], Draft]] = {
    Program.MM2: read_mm2,
    Program.MIRUS: read_mirus,
    Program.VIOOH: read_viooh,
}


@dataclass(frozen=True, slots=True)
class Imported:
    """A configuration of ours; how many lines of the input became part of it, and how many remarks it has."""

    text: str
    translated: int
    remarks: int
    problems: tuple[str, ...]


def import_configuration(content: bytes, program: Program, *, file: str) -> Imported:
    """Returns the configuration in the bytes of another program's file.

    Raises:
        ImportRefusedError: it is none; the text says where and what to do.
    """
    return rendered(read_draft(content, program), program, file=file)


def rendered(draft: Draft, program: Program, *, file: str, problems: Sequence[str] = ()) -> Imported:
    """Returns a draft as a configuration; ``problems`` are what is to be mended in it already."""
    result = written(draft, program=program.value, file=file, problems=problems)
    return Imported(result.text, len(draft.translated), len(draft.remarks), result.problems)


def read_draft(content: bytes, program: Program) -> Draft:
    """Returns what the bytes of another program's file say.

    Raises:
        ImportRefusedError: they are no configuration of its; the text says where and what to do.
    """
    if len(content) > BYTES_MAX:
        raise ImportRefusedError(f"it is larger than {BYTES_MAX} bytes: is it a configuration?")
    if b"\0" in content or content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ImportRefusedError("it is no text in UTF-8: save it in that encoding")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ImportRefusedError(f"line {line} is no text in UTF-8: save the file in that encoding") from None
    if not text.strip():
        raise ImportRefusedError("it is empty: name the file that the program is started with")
    return _READERS[program](text)
