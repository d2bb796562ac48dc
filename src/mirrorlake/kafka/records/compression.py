"""The compressions a record batch may have, into buffers of bounded size.

What is written is what the Java client and the broker read: gzip members, snappy in the xerial framing, LZ4
frames with independent blocks (`Lz4BlockInputStream.java` refuses linked ones), zstd frames.
"""

from struct import Struct

import cramjam

from mirrorlake.kafka.records.batch_header import Codec

Bytes = bytes | bytearray | memoryview

_GZIP_LEVEL = 6  # zlib's default, which the Java client keeps (KIP-390)
ZSTD_LEVEL = 3  # the Java client's default (KIP-390)
_LZ4_LEVEL = 1  # the fast compressor, as the Java client by default; from 3 on it is the high compression one

# Stream header of snappy-java's SnappyOutputStream: magic, version 1, readable since version 1.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024  # SnappyOutputStream's default
_XERIAL_LENGTH = Struct(">i")
# No element of snappy makes more than 64 bytes of its 3; a block says beforehand what it comes to, and may lie.
_SNAPPY_RATIO_MAX = 22

# What cramjam says when the bytes go on beyond the output buffer; a test holds each codec to it.
_OUTPUT_FULL = "failed to write whole buffer"


class OutputFullError(Exception):
    """There are more bytes than fit the buffer; decoding tries a larger one, up to its limit."""


class MalformedDataError(Exception):
    """The bytes are not what the codec writes, or are cut; decoding makes a CorruptBatchError of it."""


def compress(codec: Codec, data: Bytes, *, zstd_level: int = ZSTD_LEVEL) -> Bytes:
    """Returns ``data`` compressed at the level the Java client has by default, or as it is (``NONE``).

    ``zstd_level`` is another one for zstd.
    """
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return memoryview(cramjam.gzip.compress(data, level=_GZIP_LEVEL))
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(level=_LZ4_LEVEL, content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))  # it takes nothing else
            return memoryview(compressor.finish())
        case Codec.ZSTD:
            return memoryview(cramjam.zstd.compress(data, level=zstd_level))


def _compress_xerial(data: memoryview) -> bytearray:
    framed = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        framed += _XERIAL_LENGTH.pack(len(block))
        framed += block
    return framed


def decompress_into(codec: Codec, data: Bytes, output: bytearray | memoryview) -> int:
    """Decompresses all of ``data`` to the start of ``output``; returns how many bytes it came to.

    Never allocates for what the data claims about itself: ``output`` is the bound. (libzstd keeps a window
    beside it, of at most 128 MiB.) On an error the contents of ``output`` are undefined.

    Args:
        codec: any but ``NONE``.
        data: complete streams of the codec; snappy with or without the xerial framing, as clients write both.
        output: writable memory.

    Raises:
        OutputFullError: there is more than fits.
        MalformedDataError: the data is not the codec's, or is cut.
    """
    try:
        match codec:
            case Codec.GZIP:
                return int(cramjam.gzip.decompress_into(data, output))
            case Codec.SNAPPY:
                return _decompress_snappy(memoryview(data), memoryview(output))
            case Codec.LZ4:
                return int(cramjam.lz4.decompress_into(data, output))
            case Codec.ZSTD:
                return int(cramjam.zstd.decompress_into(data, output))
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            raise OutputFullError from error
        raise MalformedDataError(f"not {codec.name.lower()} data: {error}") from error
    raise ValueError("Codec.NONE needs no decompression")


def _decompress_snappy(data: memoryview, output: memoryview) -> int:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, output)
    position = len(_XERIAL_HEADER)
    written = 0
    while position < len(data):
        start = position + _XERIAL_LENGTH.size
        length = _XERIAL_LENGTH.unpack_from(data, position)[0] if start <= len(data) else -1
        position = start + length
        if length < 0 or position > len(data):
            raise MalformedDataError("not snappy data: a block of the xerial framing is cut")
        written += _decompress_snappy_block(data[start:position], output[written:])
    return written


def _decompress_snappy_block(block: memoryview, output: memoryview) -> int:
    length = cramjam.snappy.decompress_raw_len(block)
    if length > _SNAPPY_RATIO_MAX * len(block):
        raise MalformedDataError(f"not snappy data: {length} bytes cannot come of {len(block)}")
    if length > len(output):
        raise OutputFullError
    return int(cramjam.snappy.decompress_raw_into(block, output[:length]))
