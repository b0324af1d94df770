"""Events of one consumer group (KIP-848), inferred from heartbeats and their answers. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, field

from kohort.errors import ErrorCode
from kohort.gateway.observed.departure import LEAVES, Departure
from kohort.gateway.observed.facts import Partition
from kohort.gateway.observed.names import TopicNames
from kohort.group_events import (
    Cause,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
    MemberRefused,
)
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

QUIET: Millis = 10_000
"""Time after which partitions that nobody takes no longer delay the end of a rebalance: their new owner does not use
the gateway, or no member subscribes to them any more."""
_LEFT, _AWAY = -1, -2
"""Epochs of a heartbeat with which a member leaves, and with which a static member says that it will return."""
_NOTHING: frozenset[TopicPartition] = frozenset()
_NEEDS_OPERATOR = frozenset(
    {ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.INVALID_REGULAR_EXPRESSION}
)
"""Refusals that only a change of configuration ends."""


@dataclass(slots=True)
class _Member:
    facts: MemberFacts
    epoch: int = 0
    assigned: frozenset[Partition] = frozenset()
    owes: frozenset[Partition] = frozenset()
    """Partitions that it must give up, and has not reported to have given up."""
    told: frozenset[TopicPartition] = _NOTHING
    """Partitions that it has, as the events so far say. Those whose topic has no known name follow later."""


@dataclass(slots=True)
class ObservedConsumerGroup:
    """A consumer group."""

    group_id: str
    names: TopicNames
    epoch: int = 0
    """Highest group epoch that was seen, or inferred from a member that left."""
    is_settled: bool = True
    changed_at: Millis = 0
    _members: dict[str, _Member] = field(default_factory=dict)
    _free: set[TopicPartition] = field(default_factory=set)
    """Partitions that members gave up and nobody took since."""
    _events: list[GroupEvent] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no member is known."""
        return not self._members

    def answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        facts: MemberFacts,
        now: Millis,
        departure: Departure = LEAVES,
    ) -> list[GroupEvent]:
        """Return the events that a heartbeat and its answer show. `departure` counts if the member leaves."""
        member = self._members.get(facts.member_id)
        if response.error_code:
            self._refused(response, member, facts)
        elif request.member_epoch == _AWAY:
            if member is not None:
                self._move(member, gave_up=member.told)
                member.assigned = member.owes = frozenset()
        elif request.member_epoch == _LEFT:
            if member is not None:
                self._gone(member, departure.cause, departure.silent_since)
                self._bumped(self.epoch + 1, departure.cause, facts.member_id)
        else:
            self._goes_on(request, response, member, facts)
        return self._done(now)

    def settle_if_quiet(self, now: Millis) -> list[GroupEvent]:
        """Return the end of the rebalance if only partitions that nobody takes delay it."""
        if now - self.changed_at >= QUIET:
            self._free.clear()
            # An inferred epoch may be too high: two changes can share one.
            self.epoch = max((member.epoch for member in self._members.values()), default=self.epoch)
        return self._done(now)

    def _goes_on(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        member: _Member | None,
        facts: MemberFacts,
    ) -> None:
        if member is None:
            member = self._arrived(request, response, facts)
        elif response.member_epoch > self.epoch:
            described = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
            cause = Cause.SUBSCRIPTION_CHANGED if described else Cause.UNKNOWN
            self._bumped(response.member_epoch, cause, facts.member_id if described else None)
        if request.topic_partitions is not None and member.owes:
            owned = _partitions(request.topic_partitions)
            if not member.owes & owned:
                gave_up, member.owes = self.names.named(member.owes), frozenset()
                self._move(member, gave_up=gave_up & member.told)
        if response.assignment is not None:
            given = _partitions(response.assignment.topic_partitions)
            lost = member.assigned - given
            member.owes = (member.owes | lost) - given
            member.assigned = given
            if lost:
                self._move(member, owes=self.names.named(lost) & member.told)
        member.epoch = response.member_epoch
        took = self.names.named(member.assigned) - member.told
        if took:
            self._left_unseen(member, took)
            self._move(member, took=took)

    def _arrived(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse, facts: MemberFacts
    ) -> _Member:
        member = _Member(facts)
        if request.member_epoch:
            # It joined before the gateway started, or its connection went past it.
            self.epoch = max(self.epoch, response.member_epoch)
            member.assigned = _partitions(request.topic_partitions or ())
            member.told = self.names.named(member.assigned)
            self._members[facts.member_id] = member
            self._events.append(
                MemberMoved(self.group_id, facts, request.member_epoch, member.told, _NOTHING, _NOTHING)
            )
            return member
        cause = Cause.MEMBER_JOINED if self._members else Cause.FIRST_MEMBER
        before = self._static(facts.instance_id)
        if before is not None:
            cause = Cause.STATIC_MEMBER_RETURNED
            self._gone(before, cause)
        # A coordinator may compute the target later: then the answer has the epoch before.
        if before is None:
            self._bumped(max(response.member_epoch, self.epoch + 1), cause, facts.member_id)
        elif response.member_epoch > self.epoch:
            self._bumped(response.member_epoch, cause, facts.member_id)
        self._members[facts.member_id] = member
        self._events.append(MemberCame(self.group_id, facts))
        return member

    def _static(self, instance_id: str | None) -> _Member | None:
        if instance_id is None:
            return None
        return next((member for member in self._members.values() if member.facts.instance_id == instance_id), None)

    def _refused(self, response: ConsumerGroupHeartbeatResponse, member: _Member | None, facts: MemberFacts) -> None:
        code = response.error_code
        if code in _NEEDS_OPERATOR:
            reason = response.error_message or "no reason given"
            self._events.append(MemberRefused(self.group_id, facts, ErrorCode(code).name, reason))
        elif member is not None and code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._gone(member, Cause.SESSION_EXPIRED)
        elif member is not None and code == ErrorCode.FENCED_MEMBER_EPOCH:
            self._gone(member, Cause.UNKNOWN)

    def _bumped(self, epoch: int, cause: Cause, member_id: str | None) -> None:
        self.epoch = epoch
        self.is_settled = False
        self._events.append(GroupEpochBumped(self.group_id, epoch, cause, member_id, None))

    def _gone(self, member: _Member, cause: Cause, silent_since: Millis | None = None) -> None:
        del self._members[member.facts.member_id]
        self._free |= member.told
        self._events.append(MemberGone(self.group_id, member.facts, cause, None, silent_since))

    def _left_unseen(self, new_owner: _Member, took: frozenset[TopicPartition]) -> None:
        """Remove the members whose partitions another one gets although they gave none up: their sessions expired."""
        for other in [other for other in self._members.values() if other is not new_owner and other.told & took]:
            if not self.names.named(other.owes) >= other.told & took:
                self._gone(other, Cause.SESSION_EXPIRED)

    def _move(
        self,
        member: _Member,
        *,
        owes: frozenset[TopicPartition] = _NOTHING,
        gave_up: frozenset[TopicPartition] = _NOTHING,
        took: frozenset[TopicPartition] = _NOTHING,
    ) -> None:
        if not (owes or gave_up or took):
            return
        member.told = (member.told - gave_up) | took
        self._free |= gave_up
        self._free -= took
        self.is_settled = False
        self._events.append(MemberMoved(self.group_id, member.facts, member.epoch, owes, gave_up, took))

    def _done(self, now: Millis) -> list[GroupEvent]:
        if self._events:
            self.changed_at = now
        if not self.is_settled and self._is_at_rest():
            self.is_settled = True
            self._free.clear()
            self._events.append(GroupSettled(self.group_id, self.epoch, ""))
        events, self._events = self._events, []
        return events

    def _is_at_rest(self) -> bool:
        if self.is_empty:
            return True
        return not self._free and all(
            member.epoch >= self.epoch and not member.owes for member in self._members.values()
        )


def _partitions(topics: Collection[TopicPartitions]) -> frozenset[Partition]:
    return frozenset((topic.topic_id, partition) for topic in topics for partition in topic.partitions)
