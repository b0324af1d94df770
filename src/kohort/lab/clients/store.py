"""Counts per key of a member's partitions, restored from a changelog topic if there is one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping

from kohort import blocking
from kohort.lab.clients.count_stores import new_count_store
from kohort.lab.clients.counts import Counts, checkpoint
from kohort.lab.member_settings import MemberSettings
from kohort.model import TopicPartition


class Store:
    """Store of one member.

    With a changelog, it reads the counts of new partitions and writes changes; without one, it
    simulates restoring.
    """

    port = 0
    """Port for queries; 0 if there is none."""

    def __init__(self, settings: MemberSettings) -> None:
        self.restored = 0
        """Number of changelog records that were read while partitions waited for them."""
        self._settings = settings
        self._count_store = new_count_store(settings)
        self._counts: dict[int, Counts] = {}
        self._changed = defaultdict[int, dict[bytes, int]](dict)
        """New counts by partition that are not in the changelog, and therefore not in `_counts`, yet."""
        self._producer = blocking.Producer(bootstrap_servers=settings.bootstrap) if settings.changelog else None

    def count(self, partition: int, key: bytes) -> None:
        """Count a record of this key."""
        self._changed[partition][key] = (self.of(partition, key) or 0) + 1

    def of(self, partition: int, key: bytes) -> int | None:
        """Return the count of a key; None if there is none."""
        changed = self._changed.get(partition)
        if changed and key in changed:
            return changed[key]
        counts = self._counts.get(partition)
        return None if counts is None else counts.get(key)

    def restore(self, partitions: Collection[int]) -> None:
        """Restore earlier counts, except those that are here already. Blocks until they are complete."""
        if not partitions:
            return
        if self._settings.restore_ms:
            time.sleep(self._settings.restore_ms * len(partitions) / 1000)
        for number in partitions:
            if number not in self._counts:
                self._counts[number] = self._count_store.open(number)
        if self._settings.changelog:
            self._read_changelog(partitions)
        else:
            for number in partitions:
                self._counts[number].take({}, 0)

    def flush(self, partitions: Collection[int]) -> None:
        """Write the changed counts, and wait until they are written."""
        changed = [number for number in partitions if self._changed.get(number)]
        sent = {number: self._send(number, self._changed[number]) for number in changed}
        for number in changed:
            written = [delivery.result().offset + 1 for delivery in sent[number]]
            self._counts[number].take(self._changed[number], max(written, default=0))
            del self._changed[number]

    def forget(self, partitions: Collection[int]) -> None:
        """Drop the partitions, which other members own now."""
        for number in partitions:
            self._changed.pop(number, None)
            counts = self._counts.pop(number, None)
            if counts is not None:
                self._put_away(number, counts)

    def close(self) -> None:
        """Drop all partitions and close the producer."""
        self.forget(list(self._counts))
        if self._producer is not None:
            self._producer.close()

    def _send(self, partition: int, counts: Mapping[bytes, int]) -> list[blocking.BlockingDelivery]:
        if self._producer is None:
            return []
        return [
            self._producer.send(self._settings.changelog, b"%d" % count, key=key, partition=partition)
            for key, count in counts.items()
        ]

    def _put_away(self, partition: int, counts: Counts) -> None:
        counts.close()

    def _read_changelog(self, numbers: Collection[int]) -> None:
        partitions = [TopicPartition(self._settings.changelog, number) for number in numbers]
        with blocking.Consumer(
            bootstrap_servers=self._settings.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        ) as changes:
            changes.assign(partitions)
            ends = changes.end_offsets(partitions)
            for partition in partitions:
                position = checkpoint(self._counts[partition.partition], ends[partition])
                if position is not None:
                    changes.seek(partition, position)
            behind = {partition for partition in partitions if ends[partition] > changes.position(partition)}
            while behind:
                taken = defaultdict[int, dict[bytes, int]](dict)
                for record in changes.poll(max_records=10_000, timeout=0.1):
                    taken[record.partition][record.key or b""] = int(record.value or b"0")
                    self.restored += 1
                positions = changes.positions()
                for partition in behind:
                    self._counts[partition.partition].take(taken[partition.partition], positions[partition])
                behind = {partition for partition in behind if positions[partition] < ends[partition]}
