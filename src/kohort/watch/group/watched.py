"""One group as its log and admin APIs tell it: each change goes to the steps of its protocol. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from kohort.group_events import AssignmentMade, MemberMoved
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import (
    AssignmentWritten,
    CommitDeleted,
    Committed,
    EpochRaised,
    GenerationWritten,
    GroupChange,
    GroupDeleted,
    MemberDeleted,
    MemberWritten,
    TargetComputed,
)
from kohort.watch.commits import Commit
from kohort.watch.darkness import MOST_PENDING, is_same
from kohort.watch.group import classic, consumer
from kohort.watch.group.members import REBALANCING, GroupFound
from kohort.watch.group.state import GroupState
from kohort.watch.lag import EndOffsets

NO_ENDS: Mapping[TopicPartition, EndOffsets] = {}


@dataclass(slots=True)
class WatchedGroup(GroupState):
    """A group: `apply` changes it, and returns the records of the rebalances that are complete."""

    @property
    def waits(self) -> bool:
        """Whether more may become known of a record that was returned already."""
        return self.darkness.waits

    def is_pending(self, record: RebalanceRecord) -> bool:
        """Return whether more may become known of this record."""
        return record.source is None and self.darkness.is_pending(record)

    def found(self, group: GroupFound, now: Millis) -> None:
        """Take the state that an admin API described. It makes no record of a rebalance."""
        for partition, offset in group.commits.items():
            commit = self.commits.get(partition)
            if commit is None or commit.offset != offset:
                self.commits[partition] = Commit(offset, None)
        self.described_state = group.state
        if self.type == group.type == "classic" and group.state in REBALANCING:
            # A broker describes members without subscription and assignment meanwhile; the log has both.
            return
        if self.type is None:
            facts = tuple(member.facts for member in group.members)
            owned = {member.facts.member_id: member.owned for member in group.members}
            if group.type == "classic":
                self.seed(AssignmentMade(self.group_id, group.epoch or 0, group.protocol, "", facts, owned), now)
            else:
                for member in group.members:
                    nothing = frozenset[TopicPartition]()
                    self.seed(
                        MemberMoved(self.group_id, member.facts, member.epoch or 0, member.owned, nothing, nothing), now
                    )
        self.type, self.protocol, self.protocol_type = group.type, group.protocol, group.protocol_type
        self.epoch = self.epoch if group.epoch is None else group.epoch
        self.target_epoch = self.target_epoch if group.target_epoch is None else group.target_epoch
        known = self.members
        self.members = {
            member.facts.member_id: replace(
                member, held=known[member.facts.member_id].held, away_since=known[member.facts.member_id].away_since
            )
            if member.facts.member_id in known
            else member
            for member in group.members
        }
        self.complete = True

    def apply(
        self,
        change: GroupChange,
        names: Mapping[UUID, str],
        ends: Mapping[TopicPartition, EndOffsets] = NO_ENDS,
    ) -> list[RebalanceRecord]:
        """Apply a change, and return the records of the rebalances that it completes, oldest first.

        A record of which more is known by now is returned again: it replaces the earlier one with the
        same generation and the same `ended_at`, here and in `rebalances`.

        - `names`: Names of topics by ID.
        - `ends`: End offsets over time, if they are sampled. They show which partitions stand still.
        """
        if self.darkness.waits:
            overdue = self.expire(change.at)
            if overdue:
                return [*overdue, *self.apply(change, names, ends)]
        match change:
            case Committed():
                return self.commit(change, ends.get(change.partition))
            case CommitDeleted():
                self._forget(change.partition)
                return []
        self.described_state = None
        records: list[RebalanceRecord] = []
        match change:
            case GenerationWritten():
                records = classic.generation(self, change)
            case GroupDeleted():
                self.deleted(change)
            case EpochRaised():
                records = consumer.epoch(self, change)
            case MemberWritten():
                records = consumer.member(self, change)
            case MemberDeleted():
                records = consumer.member_deleted(self, change)
            case TargetComputed():
                self.target_epoch = change.epoch
                records = consumer.settle(self, change.at)
            case AssignmentWritten():
                records = consumer.assignment(self, change, names)
            case _:
                assert_never(change)
        return self._keep(records)

    def expire(self, now: Millis) -> list[RebalanceRecord]:
        """Stop to wait for first commits after a minute, and return the records of which more is known by now.

        `now` is the time up to which the log has been read, which is earlier than the present while
        history is read. A group without changes in its log needs this call.
        """
        return self._keep(self.darkness.expire(now)) if self.darkness.waits else []

    def _forget(self, partition: TopicPartition) -> None:
        """Forget a partition whose offset is deleted: by request, by expiry, or with its topic."""
        self.commits.pop(partition, None)
        self.unowned.pop(partition, None)
        self.darkness.forget(partition)

    def commit(self, change: Committed, ends: EndOffsets | None) -> list[RebalanceRecord]:
        """Take a commit, as `apply` does. It amends no record unless one waits."""
        before = self.commits.get(change.partition)
        self.commits[change.partition], amended = self.darkness.committed(
            change.partition, before, change.offset, change.at, ends, after_gap=change.after_gap
        )
        return [] if amended is None else self._keep([amended])

    def _keep(self, records: list[RebalanceRecord]) -> list[RebalanceRecord]:
        """Store records in `rebalances`, in place of those that they amend."""
        for record in records:
            newest = range(len(self.rebalances) - 1, max(-1, len(self.rebalances) - 3 * MOST_PENDING), -1)
            place = next((at for at in newest if is_same(self.rebalances[at], record)), None)
            if place is None:
                self.rebalances.append(record)
            else:
                self.rebalances[place] = record
        return records
