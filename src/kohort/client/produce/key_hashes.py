"""Hashes by which Kafka's clients map keys to partitions."""

import zlib
from struct import Struct

_INT32_LE = Struct("<I")


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of Java's producer, made non-negative.

    All clients must compute the same value for a key.
    """
    length = len(data)
    h = 0x9747B28C ^ length
    whole_number = length & ~3
    for (k,) in _INT32_LE.iter_unpack(data[:whole_number]):
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        k ^= k >> 24
        h = (h * 0x5BD1E995 ^ k * 0x5BD1E995) & 0xFFFFFFFF
    rest = length - whole_number
    if rest:
        h ^= int.from_bytes(data[whole_number:], "little")
        h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0x5BD1E995 & 0xFFFFFFFF
    h ^= h >> 15
    return h & 0x7FFFFFFF


def crc32(data: bytes) -> int:
    """Return the CRC-32 that librdkafka's `consistent` partitioners use."""
    return zlib.crc32(data)


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash as librdkafka and Sarama compute it: the absolute value of a signed number."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return 0x100000000 - h if h & 0x80000000 else h
