"""What the rules look at: a group, its rebalances of the last hour, and figures that several rules need. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from kohort.model import Millis, TopicPartition
from kohort.recorder import BURST_MS, Burst, Flapping, RebalanceRecord, Return, bursts, flapping, is_follow_up, returns
from kohort.watch.findings.clients import Client, MemberTelemetry, client_of, common_client
from kohort.watch.findings.limits import SETTLED_MS, WINDOW_MS
from kohort.watch.group import WatchedGroup, WatchedMember
from kohort.watch.lag import EndOffsets

LagSeries = Sequence[tuple[Millis, float | None]]
"""Lag of a group in seconds over time, oldest first; None if it was unknown."""

_AWAY = -2


@dataclass
class Facts:
    """A group as it is now, and its past hour."""

    group: WatchedGroup
    history: Iterable[RebalanceRecord]
    now: Millis
    ends: Mapping[TopicPartition, EndOffsets] = field(default_factory=dict)
    lags: LagSeries = ()
    telemetry: Mapping[str, MemberTelemetry] = field(default_factory=dict)

    @cached_property
    def all_records(self) -> list[RebalanceRecord]:
        """Records of the last hour, oldest first, also those that are no rebalances."""
        newest_first = sorted(self.history, key=lambda record: record.ended_at, reverse=True)
        recent = takewhile(lambda record: record.ended_at > self.now - WINDOW_MS, newest_first)
        return list(recent)[::-1]

    @cached_property
    def records(self) -> list[RebalanceRecord]:
        """Rebalances of the last hour, oldest first."""
        return [record for record in self.all_records if record.is_rebalance]

    @cached_property
    def begun(self) -> list[RebalanceRecord]:
        """The same without the follow-ups of cooperative rebalances."""
        return [record for record in self.records if not is_follow_up(record)]

    @cached_property
    def bursts(self) -> list[Burst]:
        return bursts(self.records)

    @property
    def current_burst(self) -> Burst | None:
        """The burst that has not ended: another rebalance may follow."""
        last = self.bursts[-1] if self.bursts else None
        return last if last is not None and self.now - last.records[-1].ended_at <= BURST_MS else None

    @cached_property
    def returns(self) -> list[Return]:
        return returns(self.records)

    @cached_property
    def flapping(self) -> list[Flapping]:
        return flapping(self.returns)

    @property
    def empty_ms(self) -> list[Millis]:
        """How long the group was empty, each time that a member started it again: batch jobs come and go like this."""
        pauses = []
        emptied: Millis | None = None
        for record in self.records:
            if record.was_empty and emptied is not None:
                pauses.append(record.ended_at - emptied)
            emptied = None if record.members_after else record.ended_at
        return pauses

    @cached_property
    def members(self) -> list[WatchedMember]:
        """Members that are there, in the order of their IDs. Static members that are away are omitted."""
        return [member for _, member in sorted(self.group.members.items()) if member.epoch != _AWAY]

    @cached_property
    def owners(self) -> dict[TopicPartition, str]:
        return self.group.owners

    @property
    def names_all_owners(self) -> bool:
        """Whether `owners` has all partitions of the members: without Describe on a topic, its name is unknown."""
        return not any(member.has_unnamed for member in self.members)

    @property
    def settled(self) -> bool:
        """Whether the group is stable, and the last rebalance some time ago."""
        last = self.records[-1].ended_at if self.records else None
        return self.group.state == "Stable" and (last is None or self.now - last >= SETTLED_MS)

    @property
    def same_subscriptions(self) -> bool:
        """Whether all members subscribe to the same topics, so that they may share all partitions equally."""
        return len({(member.topics, member.expression) for member in self.members}) <= 1

    @cached_property
    def client(self) -> Client | None:
        """Client of all members; None if they differ or one is unknown."""
        return common_client(self.client_of(member) for member in self.members)

    def client_of(self, member: WatchedMember) -> Client | None:
        """Return the client of one member; None if it is unknown."""
        return client_of(member.facts, self.telemetry.get(member.facts.member_id))
