"""Offsets as Spark stores them in a checkpoint, and as users specify them. Pure.

The offset in a checkpoint is the JSON of spark-sql-kafka, `{"flights": {"0": 17}}`: the positions
at which the next batch begins. In some batches a partition does not begin where the previous batch
ended, because the partition was taken over from another member or is new. Such a batch stores the
first offset as well, `{"flights": {"0": 17, "0@": 4}}`, so that a replay reads the same range.

Offsets of a member have additional entries:

- `"@query"` is the query, `{"@query": "5c0f..."}`. After a restart it identifies the group's commits of this query.
- `"@epoch"` is the generation or member epoch in which the batch was planned, `{"@epoch": 7}`. Sinks fence by it.
- `"@group"` is the group, so that a checkpoint of another group is detected.

`"@topics"` has the id of each topic: if a topic is deleted and created again, the same offsets
denote other records. `"@claims"` has the query's claim to each partition (`Claim`), by which sinks
order the writers of a partition.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from kohort.errors import ConfigError, KohortError
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition

LATEST, EARLIEST = -1, -2
"""Kafka's numbers for the two ends of a partition, in ListOffsets and in the JSON that users write."""

Positions = Mapping[TopicPartition, int]

TopicIds = Mapping[str, str]
"""Topic ids by topic name, as Kafka prints them. Brokers older than 2.8 have none."""

# These names are not valid topic names.
_QUERY, _EPOCH, _GROUP, _TOPICS, _CLAIMS = "@query", "@epoch", "@group", "@topics", "@claims"


class Claim(NamedTuple):
    """Claim of a query to a partition. The group's coordinator accepts a claim from the partition's owner only.

    Each owner adds one to the number in the previous owner's commit. `root` names the series of
    numbers. A new series begins if the group has no commit of a query, because the group is new, has
    expired, was deleted, or was reset.
    """

    root: str
    number: int

    def __str__(self) -> str:
        return f"{self.root}.{self.number}"

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse a claim. Raises ValueError if `text` is not one."""
        root, dot, number = text.rpartition(".")
        if not dot or not root or not number.isdecimal():
            raise ValueError(f"{text!r} is not a claim")
        return cls(root, int(number))


@dataclass(frozen=True, slots=True)
class Offset:
    """Position of each partition, and the first offset of partitions that did not continue from the previous offset."""

    positions: Positions = field(default_factory=dict)
    pins: Positions = field(default_factory=dict)
    query: str | None = None
    epoch: int | None = None
    group: str | None = None
    topic_ids: TopicIds = field(default_factory=dict)
    claims: Mapping[TopicPartition, Claim] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON.

        Equal offsets give equal text: Spark compares the text, and runs a batch if it differs.
        """
        named = {_EPOCH: self.epoch, _GROUP: self.group, _QUERY: self.query}
        topics: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if self.topic_ids:
            topics[_TOPICS] = dict(sorted(self.topic_ids.items()))
        if self.claims:
            claims: dict[str, dict[str, str]] = {}
            for tp in sorted(self.claims):
                claims.setdefault(tp.topic, {})[str(tp.partition)] = str(self.claims[tp])
            topics[_CLAIMS] = claims
        for tp in sorted(self.positions):
            partitions = topics.setdefault(tp.topic, {})
            partitions[str(tp.partition)] = self.positions[tp]
            if tp in self.pins:
                partitions[f"{tp.partition}@"] = self.pins[tp]
        return topics


def offset_from_json(data: object) -> Offset:
    """Return the offset that a checkpoint holds; offsets of spark-sql-kafka are accepted as well.

    Raises KohortError if `data` is not an offset.
    """
    positions: dict[TopicPartition, int] = {}
    pins: dict[TopicPartition, int] = {}
    try:
        topics: dict[str, Any] = dict(data) if isinstance(data, dict) else {"": data}
        query, epoch, group, ids, claimed = (
            topics.pop(name, None) for name in (_QUERY, _EPOCH, _GROUP, _TOPICS, _CLAIMS)
        )
        for tp, name, number in _entries(topics):
            (pins if name.endswith("@") else positions)[tp] = number
        claims = {
            TopicPartition(topic, _partition(name)): Claim.of(text)
            for topic, partitions in (claimed or {}).items()
            for name, text in partitions.items()
        }
    except (ValueError, AttributeError) as error:
        text = json.dumps(data)
        raise KohortError(f"The checkpoint holds {text:.200}, which is not an offset of this source: {error}") from None
    return Offset(positions, pins, query, epoch, group, ids or {}, claims)


def text_of_topic_id(topic_id: UUID | None) -> str | None:
    """Return the id as Kafka's tools print it, or None for a topic without an id."""
    if topic_id is None or topic_id == NO_TOPIC_ID:
        return None
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_id_of_text(text: str | None) -> UUID | None:
    """Return the id that Kafka's tools print as `text`."""
    return None if text is None else UUID(bytes=urlsafe_b64decode(text + "=="))


@dataclass(frozen=True, slots=True)
class Earliest:
    """First record that each partition still holds."""


@dataclass(frozen=True, slots=True)
class Latest:
    """End of each partition."""


@dataclass(frozen=True, slots=True)
class Exact:
    """One offset per partition, each of which may be EARLIEST or LATEST."""

    offsets: Positions


@dataclass(frozen=True, slots=True)
class AtTime:
    """First record at or after a time: one time for all partitions, or one per partition.

    With `or_latest`, a partition without such a record begins at its end; without it, that is an
    error.
    """

    everywhere: Millis | None
    times: Positions = field(default_factory=dict)
    or_latest: bool = False


Bound = Earliest | Latest | Exact | AtTime


def wanted(bound: Bound, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return what to request from ListOffsets for each partition: EARLIEST, LATEST or a time.

    Explicit offsets of `Exact` are not requested.
    """
    match bound:
        case Earliest():
            return dict.fromkeys(partitions, EARLIEST)
        case Latest():
            return dict.fromkeys(partitions, LATEST)
        case AtTime(everywhere=int(time)):
            return dict.fromkeys(partitions, time)
        case AtTime(times=times):
            return _of_each(times, partitions, "times")
        case Exact(offsets=offsets):
            given = _of_each(offsets, partitions, "offsets")
            return {tp: number for tp, number in given.items() if number < 0}


def narrowed(bound: Bound, partitions: Iterable[TopicPartition]) -> Bound:
    """Return the bound restricted to these partitions.

    A member requests offsets only for partitions that it gained, while the user specifies all of
    them.
    """
    match bound:
        case Exact(offsets=offsets):
            return Exact({tp: offsets[tp] for tp in partitions if tp in offsets})
        case AtTime(everywhere=None, times=times, or_latest=or_latest):
            return AtTime(None, {tp: times[tp] for tp in partitions if tp in times}, or_latest)
    return bound


def parse_bound(text: str, option: str) -> Bound:
    """Parse `earliest`, `latest`, or JSON with an offset for every partition. Raises ConfigError."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
    return Exact(parse_numbers(text, option, least=EARLIEST))


def parse_numbers(text: str, option: str, *, least: int = 0) -> dict[TopicPartition, int]:
    """Parse `{"flights": {"0": 17}}` to a mapping. Raises ConfigError."""
    try:
        numbers = {tp: number for tp, _, number in _entries(json.loads(text), least)}
    except (ValueError, RecursionError) as error:
        example = '{"flights": {"0": 17, "1": -2}}'
        raise ConfigError(f"Option {option} must be like {example}, not {text:.200}: {error}.") from None
    return numbers


def _entries(data: object, least: int = 0) -> Iterable[tuple[TopicPartition, str, int]]:
    if not isinstance(data, dict):
        raise ValueError("it is not an object of topics")
    for topic, partitions in data.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic} is not an object of partitions")
        for name, number in partitions.items():
            yield TopicPartition(topic, _partition(name)), name, _number(name, number, least)


def _partition(name: str) -> int:
    digits = name.removesuffix("@")
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{name} is not a partition number")
    return int(digits)


def _number(name: str, number: Any, least: int) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(f"{number} of partition {name} is not a number of at least {least}")
    return number


def _of_each(numbers: Positions, partitions: Iterable[TopicPartition], what: str) -> dict[TopicPartition, int]:
    """Return the numbers of the partitions.

    As in spark-sql-kafka, all must be specified: an omitted one would be a silent gap. Raises
    ConfigError.
    """
    chosen = set(partitions)
    if missing := sorted(chosen - numbers.keys()):
        raise ConfigError(f"The given {what} miss {_listed(missing)}; give one for each partition.")
    if surplus := sorted(numbers.keys() - chosen):
        raise ConfigError(f"The given {what} name {_listed(surplus)}, which the query does not read.")
    return {tp: numbers[tp] for tp in chosen}


def _listed(partitions: list[TopicPartition]) -> str:
    names = ", ".join(str(tp) for tp in partitions[:5])
    return names if len(partitions) <= 5 else f"{names} and {len(partitions) - 5} more"
