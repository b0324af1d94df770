"""User data of the two sticky assignors: the member's earlier partitions and their generation.

sticky: previous_assignment []{topic string, partitions []int32}, generation int32 (KIP-341; absent
before 2.3)

cooperative-sticky: generation int32, for leaders that cannot read it from a subscription of version
2 (KAFKA-13419)
"""

from collections.abc import Collection
from dataclasses import dataclass
from struct import Struct, error

from kohort.model import TopicPartition

NO_GENERATION = -1

_INT16 = Struct(">h")
_INT32 = Struct(">i")


@dataclass(frozen=True, slots=True)
class Claim:
    """Partitions that a member claims to have owned, and the generation that assigned them."""

    partitions: Collection[TopicPartition] = ()
    generation: int = NO_GENERATION


def encode_generation(generation: int) -> bytes:
    """Encode the user data of a member of a cooperative-sticky group."""
    return _INT32.pack(generation)


def decode_generation(data: bytes | None) -> int:
    """Return the generation, or -1 if the bytes contain none."""
    return _INT32.unpack_from(data)[0] if data and len(data) >= _INT32.size else NO_GENERATION


def encode_claim(claim: Claim) -> bytes:
    """Encode the user data of a member of a sticky group.

    Equal claims give equal bytes: different bytes count as a changed subscription and rebalance the
    group (KAFKA-12898).
    """
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(claim.partitions):
        by_topic.setdefault(topic, []).append(number)
    parts = [_INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        name = topic.encode(errors="surrogateescape")
        parts += _INT16.pack(len(name)), name, _INT32.pack(len(numbers)), *map(_INT32.pack, numbers)
    return b"".join((*parts, _INT32.pack(claim.generation)))


def decode_claim(data: bytes | None) -> Claim:
    """Decode a claim.

    Malformed data counts as no claim, as in Java's leader, so that a bug of one member does not
    break the others.
    """
    if not data:
        return Claim()
    try:
        return _read_claim(data)
    except (error, ValueError):
        return Claim()


def _read_claim(data: bytes) -> Claim:
    partitions: list[TopicPartition] = []
    (topics,), at = _INT32.unpack_from(data), _INT32.size
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, at)
        at += _INT16.size
        name = data[at : at + _length(length, data)].decode(errors="surrogateescape")
        at += length
        (count,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        numbers = memoryview(data)[at : at + _INT32.size * _length(count, data)]
        partitions += [TopicPartition(name, number) for (number,) in _INT32.iter_unpack(numbers)]
        at += len(numbers)
    generation = _INT32.unpack_from(data, at)[0] if len(data) >= at + _INT32.size else NO_GENERATION
    return Claim(partitions, generation)


def _length(claimed: int, data: bytes) -> int:
    if not 0 <= claimed <= len(data):
        raise ValueError(f"a length of {claimed} in {len(data)} bytes")
    return claimed
