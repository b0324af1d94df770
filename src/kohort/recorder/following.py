"""What following a group of either protocol shares: who has what, what is dark, a record that waits for reads."""

from collections.abc import Set
from dataclasses import dataclass, field, replace

from kohort.coordinator.events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.recorder.holdings import Holdings
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger


@dataclass(slots=True)
class Running:
    """A rebalance whose assignment has not come yet."""

    started_at: Millis
    triggers: list[Trigger]
    follow_up_of: int | None


@dataclass(slots=True)
class Written:
    """A record that lacks only the first reads of some partitions."""

    record: RebalanceRecord
    changes: dict[TopicPartition, PartitionChange]
    unread: set[TopicPartition]

    def finish(self) -> RebalanceRecord:
        return replace(self.record, partitions=tuple(self.changes[partition] for partition in sorted(self.changes)))


@dataclass(slots=True, eq=False)
class Following:
    """One group. A method that completes a record returns it."""

    group_id: str
    members: dict[str, MemberFacts] = field(default_factory=dict)
    """Of a classic group: of the last generation whose assignment was seen."""
    holdings: Holdings = field(default_factory=Holdings)
    written: Written | None = None
    awaited: dict[TopicPartition, MemberFacts] = field(default_factory=dict)
    """Whose first read of which partition would end its darkness."""
    empty_since: Millis | None = None
    _running: Running | None = None
    _gone: list[Trigger] = field(default_factory=list)

    def complete(self) -> RebalanceRecord | None:
        """The record, if it waits for nothing."""
        return None if self.written is None or self.written.unread else self._finish()

    def give_up(self) -> RebalanceRecord | None:
        """The record as it stands. What it waited for is forgotten: nobody looks whether it is still dark."""
        for partition in self.awaited:
            self.holdings.dark.pop(partition, None)
        self.awaited = {}
        return self._finish()

    def _finish(self) -> RebalanceRecord | None:
        written, self.written = self.written, None
        return None if written is None else written.finish()

    def _darken(self, partitions: Set[TopicPartition], now: Millis) -> Set[TopicPartition]:
        self.holdings.darken(partitions, now)
        given_up = {partition for partition in partitions if partition in self.awaited}
        for partition in given_up:
            del self.awaited[partition]
        return given_up
