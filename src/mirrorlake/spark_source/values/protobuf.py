"""Values of Protobuf as JSON has them. Its schemas are texts: each is compiled when the first value of it is met.

Between the id and the message stands which message of the file it is: zigzag numbers, first how many, then the place
among the messages of the file, the place among those nested in it, and so on; a single zero byte stands for the first
message (``MessageIndexes.java`` of Confluent's serializers). A registry gives a file out as its text, and some as what
they were given: the base64 of its descriptor.
"""

import base64
import binascii
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Any

from mirrorlake.errors import QueryError

COMPILE_SECONDS_MAX = 60.0
"""A schema that takes longer to compile is taken for one that cannot be."""

_MAIN = "schema.proto"
_LOG_LINE = re.compile(r"[IW]\d{4} ")
"""How a line of the compiler's own log begins: of a file without a `syntax`, for one."""

_INDEXES_MAX = 100
"""Protobuf's own parsers nest no deeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufFile:
    """A schema of Protobuf as it was registered, with what it imports by the names that its text gives it."""

    text: str
    imports: Mapping[str, "ProtobufFile"]


class CompiledFile:
    """The messages of a file, compiled.

    Args:
        file: what is compiled.

    Raises:
        QueryError: it cannot be compiled, or what compiles is not installed.
    """

    def __init__(self, file: ProtobufFile) -> None:
        self._messages: dict[tuple[int, ...], Any] = {}
        self._pool, self._proto = _pool_of(file)

    def decode(self, data: bytes) -> Any:
        """Returns a message, with its place in the file before it, by Protobuf's rules for JSON.

        Fields have the names of the file and are always there, but those that tell whether they were set; numbers of
        64 bits are texts, bytes base64, times texts.

        Raises:
            ValueError: the bytes are no such message, or hold fields that the file does not know.
        """
        from google.protobuf import json_format

        indexes, begin = message_indexes(data)
        if indexes not in self._messages:
            self._messages[indexes] = self._message(indexes)
        message = self._messages[indexes]()
        message.ParseFromString(data[begin:])
        if not message.IsInitialized():
            raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if (rest := size - message.ByteSize()) > 0:
            raise ValueError(f"{rest} bytes of it are fields that the schema does not have")
        return json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=self._pool,
        )

    def _message(self, indexes: tuple[int, ...]) -> Any:
        from google.protobuf import message_factory

        found, names = self._proto, [self._proto.package] if self._proto.package else []
        for depth, index in enumerate(indexes):
            among = found.message_type if depth == 0 else found.nested_type
            if index >= len(among):
                raise ValueError(f"the schema has no message {'.'.join(map(str, indexes))}, counted from 0")
            found = among[index]
            names.append(found.name)
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(".".join(names)))


def message_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the place of a message in its file, and where its bytes begin.

    Raises:
        ValueError: the bytes do not begin with such a place.
    """
    count, at = _zigzag(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _INDEXES_MAX:
        raise ValueError(f"{count} is no number of message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        if index < 0:
            raise ValueError(f"{index} is no message index")
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError("it ends before its message indexes do")
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("it does not begin with message indexes")


def _pool_of(file: ProtobufFile) -> tuple[Any, Any]:
    """Returns all descriptors of a file and of what it imports, and the file's own."""
    if find_spec("grpc_tools") is None:
        raise QueryError(
            "values of Protobuf are decoded with a compiler that is not installed",
            hint="install it where queries run, on a cluster on every worker: pip install 'mirrorlake[protobuf]'",
        )
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    proto = None
    for proto in _descriptors(file, _MAIN):
        pool.AddSerializedFile(proto.SerializeToString())
    return pool, proto


def _descriptors(file: ProtobufFile, name: str) -> list[Any]:
    """Returns the descriptors of all that a file imports, each behind those it imports itself; its own is the last."""
    from google.protobuf import descriptor_pb2

    own = _serialized(file.text)
    if own is None:
        return _compiled(file, name)
    own.name = name
    found = {each.name: each for other, imported in file.imports.items() for each in _descriptors(imported, other)}
    for other in own.dependency:
        if other not in found:
            found |= {each.name: each for each in _compiled(_importing(other), name) if each.name != name}
    return [*found.values(), descriptor_pb2.FileDescriptorProto.FromString(own.SerializeToString())]


def _importing(name: str) -> ProtobufFile:
    """Returns a file that does nothing but import what comes with the compiler."""
    return ProtobufFile(text=f'syntax = "proto3"; import "{name}";', imports={})


def _serialized(text: str) -> Any:
    """Returns the descriptor whose base64 a text is; None for one that is Protobuf's language."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        # No text in the language does without a space or a sign that base64 has not.
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _compiled(file: ProtobufFile, name: str) -> list[Any]:
    from google.protobuf import descriptor_pb2

    with TemporaryDirectory(prefix="mirrorlake-protobuf-") as made:
        folder = Path(made)
        target = folder / "descriptors"
        sources = folder / "sources"
        for path, text in {**_texts(file), name: file.text}.items():
            (sources / path).parent.mkdir(parents=True, exist_ok=True)
            (sources / path).write_text(text)
        # In a process of its own: it says what is wrong on its stderr, and nowhere else.
        options = [f"-I{sources}", f"-I{_own_protos()}", "--include_imports", f"--descriptor_set_out={target}"]
        done = run(
            [sys.executable, "-m", "grpc_tools.protoc", *options, name],
            capture_output=True,
            text=True,
            timeout=COMPILE_SECONDS_MAX,
            check=False,
            cwd=folder,
        )
        if done.returncode != 0:
            raise QueryError(f"a schema of Protobuf cannot be compiled: {_said(done.stderr, sources)}")
        return [*descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file]


def _said(stderr: str, sources: Path) -> str:
    """Returns the errors of the compiler, with the names that the files have in their registry."""
    lines = [line.replace(f"{sources}/", "") for line in stderr.splitlines()]
    errors = [line for line in lines if "warning" not in line.lower() and not _LOG_LINE.match(line)]
    return " ".join(errors) or "the compiler does not say why"


def _texts(file: ProtobufFile) -> dict[str, str]:
    """Returns by name the texts of all that a file imports."""
    found: dict[str, str] = {}
    for name, imported in file.imports.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or name == _MAIN:
            raise QueryError(f"a schema of Protobuf imports {name!r}, which is no name of a file below a folder")
        found |= {**_texts(imported), name: imported.text}
    return found


def _own_protos() -> Path:
    """Returns the folder of what comes with the compiler: ``google/protobuf/timestamp.proto`` and the like."""
    spec = find_spec("grpc_tools")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "_proto"
