"""A store that keeps copies of what others own, so that what is won is mostly there already."""

from __future__ import annotations

from collections.abc import Collection

from kohort.assignor import RebalanceProtocol
from kohort.assignor.warm import WarmAssignor
from kohort.lab.clients.copier import Copier, Copy
from kohort.lab.clients.store import Store
from kohort.lab.order import Order


class WarmStore(Store):
    """One member's, with the assignor that lets a partition move only where it is copied."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._whole: set[int] = set()
        """The partitions whose counts are all there."""
        self.copier = Copier(order, self.answer)
        self.port = self.copier.port
        self.assignor = WarmAssignor(
            self.copier.copies,
            self.copier.planned,
            acceptable_lag=order.acceptable_lag,
            standbys=order.standbys,
            protocol=RebalanceProtocol.EAGER if order.protocol == "consumer" else RebalanceProtocol.COOPERATIVE,
        )

    def answer(self, partition: int, key: bytes) -> tuple[int, bool] | None:
        """The count of a key as its owner knows it, or of a copy, which may be stale. Any thread may ask."""
        counts = self._counts.get(partition)
        if partition in self._whole and counts is not None:
            return counts.get(key, 0), False
        copied = self.copier.count_of(partition, key)
        return None if copied is None else (copied, True)

    def restore(self, partitions: Collection[int]) -> None:
        """Take over the copies; only what has none takes its time."""
        copied = self.copier.hand_over(partitions)
        super().restore([one for one in partitions if one not in copied])
        self._counts.update((one, copy.counts) for one, copy in copied.items())
        self._positions.update((one, copy.position or 0) for one, copy in copied.items())
        self._whole.update(partitions)

    def forget(self, partitions: Collection[int]) -> None:
        """They are another's now, and stay here as copies where all that was counted is written."""
        for one in partitions:
            self._whole.discard(one)
            counts = self._counts.get(one)
            written = not self._order.changelog or not self._changed.get(one)
            kept = None if counts is None or not written else Copy(counts, self._positions.get(one, 0), lag=0)
            self.copier.take_back(one, kept)
        super().forget(partitions)

    def close(self) -> None:
        """Nothing is written or copied after it."""
        self.copier.close()
        super().close()
