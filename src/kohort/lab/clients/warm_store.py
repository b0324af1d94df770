"""A store that keeps copies of what others own, so that what is won is mostly there already."""

from __future__ import annotations

from collections.abc import Collection

from kohort.assignor import RebalanceProtocol
from kohort.assignor.warm import WarmAssignor
from kohort.lab.clients.copier import Copier
from kohort.lab.clients.counts import Counts
from kohort.lab.clients.store import Store
from kohort.lab.order import Order


class WarmStore(Store):
    """One member's, with the assignor that lets a partition move only where it is copied."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._whole: set[int] = set()
        """The partitions whose counts are all there."""
        self.copier = Copier(order, self._shelf, self.answer)
        self.port = self.copier.port
        self.assignor = WarmAssignor(
            self.copier.copies,
            self.copier.planned,
            acceptable_lag=order.acceptable_lag,
            standbys=order.standbys,
            max_warmups=order.max_warmups,
            protocol=RebalanceProtocol.EAGER if order.protocol == "consumer" else RebalanceProtocol.COOPERATIVE,
        )

    def answer(self, partition: int, key: bytes) -> tuple[int, bool] | None:
        """The count of a key as its owner knows it, or of a copy, which may be stale. Any thread may ask."""
        if partition in self._whole:
            return self.of(partition, key) or 0, False
        copied = self.copier.count_of(partition, key)
        return None if copied is None else (copied, True)

    def restore(self, partitions: Collection[int]) -> None:
        """Take over the copies; only what they lack takes its time."""
        copies = self.copier.hand_over(partitions)
        self._counts.update((one, copy.counts) for one, copy in copies.items())
        super().restore([one for one in partitions if one not in copies or copies[one].lag != 0])
        self._whole.update(partitions)

    def forget(self, partitions: Collection[int]) -> None:
        """They are another's now, and stay here as copies of what is written."""
        self._whole.difference_update(partitions)
        super().forget(partitions)

    def close(self) -> None:
        """Nothing is written or copied after it."""
        super().close()
        self.copier.close()

    def _put_away(self, partition: int, counts: Counts) -> None:
        self.copier.take_back(partition, counts)
