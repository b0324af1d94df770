"""Offsets that were committed in transactions which are still open (KIP-98). Only replay writes them.

They become the group's committed offsets with the marker of a commit, and disappear with that of an abort.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kohort.wire.group_log import CommittedOffset

_K = TypeVar("_K")


class Place(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


@dataclass(slots=True)
class _Place:
    pending: dict[int, tuple[int, CommittedOffset]] = field(default_factory=dict)
    """By producer ID, the position of the record in the log, and the record."""
    committed_at: int = -1
    """Position of the newest committed offset, if it was committed while a transaction was open."""


@dataclass(slots=True)
class PendingOffsets:
    """Pending offsets of a shard."""

    _places: dict[Place, _Place] = field(default_factory=dict)
    _by_producer: dict[int, dict[Place, None]] = field(default_factory=dict)
    _by_group: dict[str, dict[Place, None]] = field(default_factory=dict)
    _position: int = 0

    def __bool__(self) -> bool:
        return bool(self._places)

    def is_open(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a transaction that is open has an offset for this partition."""
        return Place(group_id, topic, partition) in self._places

    def has_group(self, group_id: str) -> bool:
        """Return whether a transaction that is open has an offset of this group."""
        return group_id in self._by_group

    def places(self, group_id: str) -> list[Place]:
        """Return the partitions with a pending offset of this group."""
        return list(self._by_group.get(group_id, ()))

    def producers_of(self, place: Place) -> Collection[int]:
        """Return the IDs of the producers whose open transactions have an offset for this partition."""
        kept = self._places.get(place)
        return () if kept is None else kept.pending

    def offsets_of(self, producer_id: int, group_id: str) -> dict[Place, CommittedOffset]:
        """Return the pending offsets of one producer for one group."""
        return {
            place: self._places[place].pending[producer_id][1]
            for place in self._by_producer.get(producer_id, ())
            if place.group_id == group_id
        }

    def groups_of(self, producer_id: int) -> set[str]:
        """Return the groups with pending offsets of this producer."""
        return {place.group_id for place in self._by_producer.get(producer_id, ())}

    def add(self, producer_id: int, record: CommittedOffset) -> None:
        """Keep an offset that a transaction commits. A later one for the same partition replaces it."""
        place = _place(record)
        self._position += 1
        self._places.setdefault(place, _Place()).pending[producer_id] = self._position, record
        self._by_producer.setdefault(producer_id, {})[place] = None
        self._by_group.setdefault(place.group_id, {})[place] = None

    def committed(self, record: CommittedOffset) -> None:
        """Learn of an offset that was committed without a transaction: a pending one before it is older."""
        if (kept := self._places.get(_place(record))) is not None:
            self._position += 1
            kept.committed_at = self._position

    def deleted(self, place: Place) -> None:
        """Forget the pending offsets of a partition whose offset is deleted, as Kafka does."""
        kept = self._places.get(place)
        for producer_id in () if kept is None else list(kept.pending):
            self._remove(place, producer_id)

    def end(self, producer_id: int, *, committed: bool) -> list[CommittedOffset]:
        """End the transaction of a producer, and return the records of the offsets that are committed by it."""
        visible = []
        for place in list(self._by_producer.get(producer_id, ())):
            kept = self._places[place]
            position, record = kept.pending[producer_id]
            if committed and position > kept.committed_at:
                visible.append(record)
                kept.committed_at = position
            self._remove(place, producer_id)
        return visible

    def _remove(self, place: Place, producer_id: int) -> None:
        kept = self._places[place]
        del kept.pending[producer_id]
        _discard(self._by_producer, producer_id, place)
        if not kept.pending:
            del self._places[place]
            _discard(self._by_group, place.group_id, place)


def _place(record: CommittedOffset) -> Place:
    return Place(record.group, record.topic, record.partition)


def _discard(index: dict[_K, dict[Place, None]], key: _K, place: Place) -> None:
    del index[key][place]
    if not index[key]:
        del index[key]
