"""Transactions that hold a group up: its members ask for offsets that an open transaction has committed (KIP-447).

A member that gets UNSTABLE_OFFSET_COMMIT asks again and does not read until the transaction ends. This usually takes
milliseconds. This module recognises a longer wait, for the log and the journal. It is soft state: after a failover,
the next rejected requests build it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kohort.coordinator.pending_offsets import PendingOffsets, Place
from kohort.group_events import HoldUpEnd, OffsetsHeldUp
from kohort.model import Millis, TopicPartition

HOLD_UP_MS = 10_000
"""Time for which members ask for pending offsets before it is reported, in milliseconds.

Java's and Kohort's producers send offsets right before they commit, so a transaction that is healthy holds nobody up
for more than a round trip. The shortest usual transaction timeout is 10 s (Kafka Streams).
"""


@dataclass(slots=True)
class _HoldUp:
    since: Millis
    """Time of the first rejected request."""
    reported: OffsetsHeldUp | None = None


@dataclass(slots=True)
class HoldUps:
    """Hold-ups of the groups of a shard."""

    _by_transaction: dict[tuple[str, int], _HoldUp] = field(default_factory=dict)
    """By group and producer ID."""
    _transactional_ids: dict[int, str] = field(default_factory=dict)
    """By producer ID: the log does not have them."""

    def named(self, producer_id: int, transactional_id: str) -> None:
        """Remember the transactional ID of a producer whose transaction has offsets."""
        self._transactional_ids[producer_id] = transactional_id

    def rejected(
        self, pending: PendingOffsets, group_id: str, producer_ids: Iterable[int], now: Millis
    ) -> list[OffsetsHeldUp]:
        """Record that a request for offsets was rejected because of these producers; return the hold-ups to report.

        Each one is reported once.
        """
        found = []
        for producer_id in producer_ids:
            hold_up = self._by_transaction.setdefault((group_id, producer_id), _HoldUp(now))
            if hold_up.reported is None and now - hold_up.since >= HOLD_UP_MS:
                hold_up.reported = self._report(pending, group_id, producer_id, hold_up.since)
                found.append(hold_up.reported)
        return found

    def _report(self, pending: PendingOffsets, group_id: str, producer_id: int, since: Millis) -> OffsetsHeldUp:
        offsets = pending.offsets_of(producer_id, group_id)
        return OffsetsHeldUp(
            group_id,
            producer_id,
            self._transactional_ids.get(producer_id),
            tuple(sorted(TopicPartition(place.topic, place.partition) for place in offsets)),
            min(committed.commit_timestamp for committed in offsets.values()),
            since,
        )

    def ended(self, producer_id: int, *, committed: bool) -> list[OffsetsHeldUp]:
        """Forget a producer's transaction, which ends; return the ends of its reported hold-ups."""
        self._transactional_ids.pop(producer_id, None)
        keys = [key for key in self._by_transaction if key[1] == producer_id]
        found = [self._by_transaction.pop(key).reported for key in keys]
        how = HoldUpEnd.COMMITTED if committed else HoldUpEnd.ABORTED
        return [replace(report, end=how) for report in found if report is not None]

    def ended_by_deletion(self, pending: PendingOffsets, deleted: Iterable[Place]) -> list[OffsetsHeldUp]:
        """Return the ends of the reported hold-ups whose pending offsets will all be deleted."""
        if not self._by_transaction:
            return []
        gone = set(deleted)
        return [
            replace(hold_up.reported, end=HoldUpEnd.DELETED)
            for (group_id, producer_id), hold_up in self._by_transaction.items()
            if hold_up.reported is not None and pending.offsets_of(producer_id, group_id).keys() <= gone
        ]

    def forget_deleted(self, pending: PendingOffsets) -> None:
        """Forget hold-ups without pending offsets, after a deletion."""
        for key in list(self._by_transaction):
            group_id, producer_id = key
            if not pending.offsets_of(producer_id, group_id):
                del self._by_transaction[key]
