"""Counts per key of the partitions that a member has, restored from a changelog topic where there is one."""

from __future__ import annotations

import time
from collections.abc import Collection

from kohort import blocking
from kohort.lab.order import Order
from kohort.model import TopicPartition


class Store:
    """One member's. With a changelog it reads what it wins and writes what changed; without, it pretends to restore."""

    port = 0
    """Where it answers questions; 0: nowhere."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._counts: dict[int, dict[bytes, int]] = {}
        self._changed: dict[int, set[bytes]] = {}
        self._positions: dict[int, int] = {}
        """The next offset of the changelog, of which all before is counted."""
        self._producer = blocking.Producer(bootstrap_servers=order.bootstrap) if order.changelog else None

    def count(self, partition: int, key: bytes) -> None:
        """One more record of that key."""
        counts = self._counts.setdefault(partition, {})
        counts[key] = counts.get(key, 0) + 1
        self._changed.setdefault(partition, set()).add(key)

    def restore(self, partitions: Collection[int]) -> None:
        """Take what was counted before; it takes as long as it takes."""
        if not partitions:
            return
        if self._order.restore_ms:
            time.sleep(self._order.restore_ms * len(partitions) / 1000)
        self._counts.update((one, {}) for one in partitions)
        if self._order.changelog:
            self._read_changelog([TopicPartition(self._order.changelog, one) for one in partitions])

    def flush(self, partitions: Collection[int]) -> None:
        """Write what changed, and wait until it is written."""
        if self._producer is None:
            return
        sent = [
            self._producer.send(self._order.changelog, b"%d" % self._counts[one][key], key=key, partition=one)
            for one in partitions
            for key in self._changed.pop(one, ())
        ]
        for delivery in sent:
            written = delivery.result()
            self._positions[written.partition] = written.offset + 1

    def forget(self, partitions: Collection[int]) -> None:
        """They are another's now."""
        for one in partitions:
            self._counts.pop(one, None)
            self._changed.pop(one, None)
            self._positions.pop(one, None)

    def close(self) -> None:
        """Nothing is written after it."""
        if self._producer is not None:
            self._producer.close()

    def _read_changelog(self, partitions: list[TopicPartition]) -> None:
        with blocking.Consumer(
            bootstrap_servers=self._order.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
        ) as changes:
            changes.assign(partitions)
            ends = changes.end_offsets(partitions)
            behind = {one for one in partitions if ends[one] > changes.position(one)}
            while behind:
                for record in changes.poll(max_records=10_000, timeout=0.1):
                    self._counts[record.partition][record.key or b""] = int(record.value or b"0")
                positions = changes.positions()
                behind = {one for one in behind if positions[one] < ends[one]}
            self._positions.update((one.partition, ends[one]) for one in partitions)
