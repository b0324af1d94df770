"""Store with copies of partitions that others own, so that a new partition is mostly restored already."""

from __future__ import annotations

from collections.abc import Collection

from kohort.assignor import RebalanceProtocol, WarmAssignor
from kohort.lab.clients.copier import Copier
from kohort.lab.clients.counts import Counts
from kohort.lab.clients.store import Store
from kohort.lab.member_settings import MemberSettings


class WarmStore(Store):
    """Store of one member, with the assignor that moves a partition only to a member with a copy."""

    def __init__(self, settings: MemberSettings) -> None:
        super().__init__(settings)
        self._whole: set[int] = set()
        """Partitions with complete counts."""
        self.copier = Copier(settings, self._count_store, self.answer)
        self.port = self.copier.port
        self.assignor = WarmAssignor(
            self.copier.copies,
            self.copier.planned,
            acceptable_lag=settings.acceptable_lag,
            standbys=settings.standbys,
            max_warmups=settings.max_warmups,
            protocol=RebalanceProtocol.EAGER if settings.protocol == "consumer" else RebalanceProtocol.COOPERATIVE,
        )

    def answer(self, partition: int, key: bytes) -> tuple[int, bool] | None:
        """Return the owner's count of a key, or a copy's, which may be stale. Any thread may call it."""
        if partition in self._whole:
            return self.of(partition, key) or 0, False
        copied = self.copier.count_of(partition, key)
        return None if copied is None else (copied, True)

    def restore(self, partitions: Collection[int]) -> None:
        """Take over the copies, and restore only what they lack."""
        copies = self.copier.hand_over(partitions)
        self._counts.update((number, copy.counts) for number, copy in copies.items())
        super().restore([number for number in partitions if number not in copies or copies[number].lag != 0])
        self._whole.update(partitions)

    def forget(self, partitions: Collection[int]) -> None:
        """Drop the partitions, but keep what the changelog has of them as copies."""
        self._whole.difference_update(partitions)
        super().forget(partitions)

    def close(self) -> None:
        """Drop all partitions, and stop writing and copying."""
        super().close()
        self.copier.close()

    def _put_away(self, partition: int, counts: Counts) -> None:
        self.copier.take_back(partition, counts)
