"""State that the recorder keeps for a group of either protocol: owners, dark partitions, awaited reads."""

from collections.abc import Set
from dataclasses import dataclass, field, replace

from kohort.group_events import MemberFacts, MemberGone
from kohort.model import Millis, TopicPartition
from kohort.recorder.holdings import Ownership
from kohort.recorder.record import PartitionChange, RebalanceRecord, Trigger

MOST_TRIGGERS = 1_000
"""Maximum number of triggers, and of removals, in one record: members may come and go before a group ever settles."""


@dataclass(slots=True)
class RunningRebalance:
    """A rebalance whose assignment has not arrived yet."""

    started_at: Millis
    triggers: list[Trigger]
    follow_up_of: int | None

    def interrupted(self, trigger: Trigger) -> None:
        """Take a further trigger, unless there are very many."""
        if len(self.triggers) < MOST_TRIGGERS:
            self.triggers.append(trigger)


@dataclass(slots=True)
class PendingRecord:
    """A record that lacks only the first reads of some partitions."""

    record: RebalanceRecord
    changes: dict[TopicPartition, PartitionChange]
    unread: set[TopicPartition]

    def finish(self) -> RebalanceRecord:
        return replace(self.record, partitions=tuple(self.changes[partition] for partition in sorted(self.changes)))


@dataclass(slots=True, eq=False)
class GroupRecorder:
    """Recorder for one group. A method that completes a record returns it."""

    group_id: str
    members: dict[str, MemberFacts] = field(default_factory=dict)
    """Members of the group; of a classic group, those of the last generation whose assignment arrived."""
    holdings: Ownership = field(default_factory=Ownership)
    written: PendingRecord | None = None
    awaited: dict[TopicPartition, MemberFacts] = field(default_factory=dict)
    """Members whose first read of a partition ends its dark period, by partition."""
    empty_since: Millis | None = None
    _running: RunningRebalance | None = None
    _gone: list[Trigger] = field(default_factory=list)
    _seen: dict[str, Millis] = field(default_factory=dict)
    """Time at which each member last did something that the recorder saw."""

    def _went_for(self, trigger: Trigger) -> None:
        """Take the reason for the removal of a member. The newest ones are kept."""
        if len(self._gone) >= MOST_TRIGGERS:
            del self._gone[0]
        self._gone.append(trigger)

    def _stopped_at(self, event: MemberGone, now: Millis) -> Millis:
        """Return the time from which a removed member processes nothing. Its partitions are dark since then.

        A member that disappeared stopped at its last sign of life, but not before it received and
        read its partitions.
        """
        seen = self._seen.pop(event.member.member_id, 0)
        return now if event.silent_since is None else min(now, max(event.silent_since, seen))

    def complete(self) -> RebalanceRecord | None:
        """Return the record if it awaits no read."""
        return None if self.written is None or self.written.unread else self._finish()

    def give_up(self) -> RebalanceRecord | None:
        """Return the record in its present state, and stop watching the partitions whose first reads it lacks."""
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
