"""What members with state tell whoever computes the assignment: which partitions they have a copy of, and how far each
copy is behind. It travels as the assignor's user data, so no broker has to know of it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct as Packer

from kohort.model import TopicPartition
from kohort.wire.codec import (
    DecodeError,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    array,
    decoder,
    encode,
    message,
    struct,
)

_VERSION = Packer(">h")
_NEWEST = 0


@dataclass(frozen=True, slots=True)
class Copies:
    """Of one member."""

    name: str = ""
    """By which the plan calls it: its own choice, since a new member has no member id yet."""
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Records that each copy lacks; what a member owns is a copy that lacks none. No entry: no copy."""


@struct
class CopiesOfTopic(Struct):
    """A topic's copies; the two lists are of one length."""

    topic: String = ""
    partitions: list[Int32] = array()
    lags: list[Int64] = array()


@message(versions=(0, _NEWEST))
class CopiesData(Message):
    """Copies as they stand in user data."""

    name: String = ""
    topics: list[CopiesOfTopic] = array()


def encode_copies(copies: Copies) -> bytes:
    """As bytes; equal copies are equal bytes, since others would count as a changed subscription."""
    by_topic = defaultdict[str, list[tuple[int, int]]](list)
    for (topic, number), lag in sorted(copies.lags.items()):
        by_topic[topic].append((number, lag))
    topics = [
        CopiesOfTopic(topic=topic, partitions=[number for number, _ in told], lags=[lag for _, lag in told])
        for topic, told in by_topic.items()
    ]
    return _VERSION.pack(_NEWEST) + encode(CopiesData(name=copies.name, topics=topics), _NEWEST)


def decode_copies(data: bytes | None) -> Copies:
    """The copies; bytes that say nothing of the kind count as none: another member's bug is not ours."""
    if not data or len(data) < _VERSION.size:
        return Copies()
    try:
        body, _ = decoder(CopiesData, _NEWEST)(data, _VERSION.size)
    except DecodeError:
        return Copies()
    return Copies(body.name, dict(_flat(body.topics)))


def _flat(topics: Iterable[CopiesOfTopic]) -> Iterable[tuple[TopicPartition, int]]:
    for one in topics:
        for number, lag in zip(one.partitions, one.lags, strict=False):
            if lag >= 0:
                yield TopicPartition(one.topic, number), lag
