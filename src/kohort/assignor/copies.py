"""User data of `WarmAssignor`: which partitions' state a member has a copy of, and the lag of each copy.

Brokers treat user data as opaque bytes, so they need no support for it.
"""

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
    """State copies of one member."""

    name: str = ""
    """Name of the member in the plan. The member chooses it, because a new member has no member ID yet."""
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Records that each copy lacks; 0 for a partition that the member owns. No entry means no copy."""


@struct
class CopiesOfTopic(Struct):
    """Copies of one topic's partitions; both lists have the same length."""

    topic: String = ""
    partitions: list[Int32] = array()
    lags: list[Int64] = array()


@message(versions=(0, _NEWEST))
class CopiesData(Message):
    """Body of the user data."""

    name: String = ""
    topics: list[CopiesOfTopic] = array()


def encode_copies(copies: Copies) -> bytes:
    """Encode copies as user data.

    Equal copies give equal bytes, because the coordinator treats different bytes as a changed
    subscription.
    """
    by_topic = defaultdict[str, list[tuple[int, int]]](list)
    for (topic, number), lag in sorted(copies.lags.items()):
        by_topic[topic].append((number, lag))
    topics = [
        CopiesOfTopic(topic=topic, partitions=[number for number, _ in told], lags=[lag for _, lag in told])
        for topic, told in by_topic.items()
    ]
    return _VERSION.pack(_NEWEST) + encode(CopiesData(name=copies.name, topics=topics), _NEWEST)


def decode_copies(data: bytes | None) -> Copies:
    """Decode user data.

    Malformed data counts as no copies, so that a bug of one member does not break the others.
    """
    if not data or len(data) < _VERSION.size:
        return Copies()
    try:
        body, _ = decoder(CopiesData, _NEWEST)(data, _VERSION.size)
    except DecodeError:
        return Copies()
    return Copies(body.name, dict(_flat(body.topics)))


def _flat(topics: Iterable[CopiesOfTopic]) -> Iterable[tuple[TopicPartition, int]]:
    for topic_copies in topics:
        for number, lag in zip(topic_copies.partitions, topic_copies.lags, strict=False):
            if lag >= 0:
                yield TopicPartition(topic_copies.topic, number), lag
