"""Compression codecs of record batches, as used by Kafka's clients.

Decompression uses bounded memory for any batch. A broker never decompresses. A consumer, the Spark
source and compaction do, and any producer may have sent the bytes.
"""

import struct
import zlib
from enum import IntEnum

import cramjam

from kohort.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview

MAX_INFLATED_BYTES = 256 << 20
"""Maximum uncompressed size of a batch, in bytes.

Kafka's own limit is the broker's message.max.bytes times the compression ratio that the codec
reaches.
"""
FREE_INFLATED_BYTES = 16 << 20
"""Uncompressed size up to which any ratio is allowed, in bytes: 1 MB of one letter is 60 bytes of zstd."""
MAX_RATIO = 1000

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")


class Codec(IntEnum):
    """Compression codec: the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchError(KafkaError):
    """An invalid record batch. `code` is the error code for the response of a broker."""


class InflatesTooLarge(BatchError):
    """Data whose uncompressed size exceeds the limit."""


def compress(codec: Codec, data: Buffer) -> Buffer:
    """Compress `data` at the default level of Kafka's clients."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            packer = zlib.compressobj(wbits=31)
            return packer.compress(data) + packer.flush()
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            # The Java client rejects linked blocks.
            lz4 = cramjam.lz4.Compressor(level=0, content_checksum=False, block_linked=False)
            lz4.compress(bytes(data))
            return bytes(lz4.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, 3))


def decompress(codec: Codec, data: bytes, max_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Decompress `data`.

    Raises BatchError if it is damaged, or is larger than `max_bytes` or than `MAX_RATIO` allows.
    """
    limit = min(max_bytes, max(FREE_INFLATED_BYTES, MAX_RATIO * len(data)))
    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _inflate_gzip(data, limit)
            case Codec.SNAPPY:
                return _inflate_snappy(data, limit)
            case Codec.LZ4:
                return _inflate_into(cramjam.lz4, data, limit)
            case Codec.ZSTD:
                return _inflate_into(cramjam.zstd, data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise BatchError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch's {codec.name.lower()} data is damaged: {error}"
        ) from None


def _too_large(limit: int) -> BatchError:
    return InflatesTooLarge(ErrorCode.CORRUPT_MESSAGE, f"the batch decompresses to more than {limit} bytes, the limit")


def _inflate_into(module: object, data: bytes, limit: int) -> bytes:
    """Decompress into buffers of increasing size.

    cramjam stops at the end of a buffer, whereas its streams grow without limit.
    """
    size = min(limit, max(64 * 1024, 6 * len(data)))
    while True:
        out = bytearray(size)
        try:
            written: int = module.decompress_into(data, out)  # type: ignore[attr-defined]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
            if size == limit:
                raise _too_large(limit) from None
            size = min(limit, size * 4)
        else:
            return bytes(memoryview(out)[:written])


def _inflate_gzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    while data:  # one batch may contain several gzip members
        inflater = zlib.decompressobj(wbits=31)
        part = inflater.decompress(data, left + 1)
        if len(part) > left:
            raise _too_large(limit)
        if not inflater.eof:
            raise zlib.error("it ends too early")
        parts.append(part)
        left -= len(part)
        data = inflater.unused_data
    return b"".join(parts)


def _compress_xerial(data: Buffer) -> bytes:
    """Compress in the framing of snappy-java: a 16-byte header, then blocks of 32 KiB, each with its size in front."""
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _inflate_snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        # librdkafka and other clients use no framing.
        if cramjam.snappy.decompress_raw_len(data) > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    parts: list[bytes] = []
    left, position = limit, len(_XERIAL_HEADER)
    while position < len(data):
        (size,) = _INT32.unpack_from(data, position)
        start = position + 4
        position = start + size
        if size < 0 or position > len(data):
            raise BatchError(ErrorCode.CORRUPT_MESSAGE, "the batch's snappy data is damaged: a block passes the end")
        block = data[start:position]
        left -= cramjam.snappy.decompress_raw_len(block)
        if left < 0:
            raise _too_large(limit)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
    return b"".join(parts)
