"""Events of one classic group, inferred from the requests of its members and their answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.coordinator import assigned_partitions, owned_partitions, subscription_change
from kohort.errors import ErrorCode
from kohort.gateway.observed.departure import LEAVES, Departure
from kohort.group_events import (
    AssignmentMade,
    Cause,
    GroupEvent,
    MemberFacts,
    MemberGone,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.model import Millis, TopicPartition
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(slots=True)
class _Generation:
    number: int
    leader_id: str
    awaited: set[str]
    """Members that use the gateway, and whose SyncGroup is not answered yet."""
    shares: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    from_leader: dict[str, frozenset[TopicPartition]] | None = None
    """Shares of all members, as the leader sent them."""


@dataclass(slots=True)
class ObservedClassicGroup:
    """A classic group."""

    group_id: str
    _members: dict[str, MemberFacts] = field(default_factory=dict)
    _subscriptions: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Subscriptions for each assignor, as the members last sent them."""
    _protocol_type: str = ""
    _protocol: str | None = None
    _is_rebalancing: bool = False
    _generation: _Generation | None = None
    _last: int = 0
    """Number of the last generation whose assignment was reported."""
    _events: list[GroupEvent] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no member is known."""
        return not self._members

    def has_member(self, member_id: str) -> bool:
        """Return whether a member is known."""
        return member_id in self._members

    def join_sent(self, request: JoinGroupRequest, facts: MemberFacts) -> list[GroupEvent]:
        """Return the events that a JoinGroup shows before it is answered.

        The coordinator must have named the member: anybody may send a request, and a refused one changes nothing.
        """
        self._rejoins(request, facts)
        return self._taken()

    def _rejoins(self, request: JoinGroupRequest, facts: MemberFacts) -> None:
        protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
        if not self._is_rebalancing:
            self._started(self._cause_of(request.protocol_type, protocols, facts), facts.member_id, request.reason)
        self._protocol_type = request.protocol_type
        self._members[facts.member_id] = facts
        self._subscriptions[facts.member_id] = protocols
        owned = owned_partitions(request.protocol_type, protocols)
        self._events.append(MemberRejoined(self.group_id, facts, owned))

    def _cause_of(self, protocol_type: str, protocols: Mapping[str, bytes], facts: MemberFacts) -> Cause:
        if facts.member_id in self._members:
            before = self._subscriptions.get(facts.member_id)
            cause = None if before is None else subscription_change(protocol_type, before, protocols)
            if cause is not None:
                return cause
            leads = self._generation is not None and self._generation.leader_id == facts.member_id
            return Cause.LEADER_REJOINED if leads else Cause.UNKNOWN
        return Cause.MEMBER_JOINED if self._members else Cause.FIRST_MEMBER

    def join_answered(
        self, request: JoinGroupRequest, response: JoinGroupResponse, facts: MemberFacts
    ) -> list[GroupEvent]:
        """Return the events that the answer to a JoinGroup shows."""
        if response.error_code:
            self._unless_known(response.error_code, facts)
            return self._taken()
        if facts.member_id not in self._subscriptions:
            # Its request showed nothing: a static member, a version without MEMBER_ID_REQUIRED, or a member that had
            # its ID before the gateway started.
            if facts.instance_id is not None:
                for former in [each for each in self._members.values() if each.instance_id == facts.instance_id]:
                    self._gone(former, Cause.STATIC_MEMBER_RETURNED)
            self._rejoins(request, facts)
        generation = self._generation
        if generation is None or generation.number != response.generation_id:
            generation = self._generation = _Generation(response.generation_id, response.leader, set())
        generation.awaited.add(facts.member_id)
        self._protocol = response.protocol_name
        if response.leader == facts.member_id and response.members:
            present = {member.member_id for member in response.members}
            for missing in [each for each in self._members.values() if each.member_id not in present]:
                self._gone(missing, Cause.SESSION_EXPIRED)
            for member in response.members:
                if member.member_id not in self._members:  # it does not use this gateway
                    self._members[member.member_id] = MemberFacts(member.member_id, "", "", member.group_instance_id)
        return self._taken()

    def sync_answered(
        self, request: SyncGroupRequest, response: SyncGroupResponse, facts: MemberFacts
    ) -> list[GroupEvent]:
        """Return the events that the answer to a SyncGroup shows: the last one, or the leader's, ends the rebalance."""
        generation = self._generation
        if response.error_code:
            self._unless_known(response.error_code, facts)
        elif generation is not None and generation.number == request.generation_id:
            generation.awaited.discard(facts.member_id)
            generation.shares[facts.member_id] = assigned_partitions(self._protocol_type, response.assignment)
            if request.assignments:
                generation.from_leader = {
                    each.member_id: assigned_partitions(self._protocol_type, each.assignment)
                    for each in request.assignments
                }
            if generation.from_leader is not None or not generation.awaited:
                self._assigned(generation)
        return self._taken()

    def _assigned(self, generation: _Generation) -> None:
        if generation.number == self._last and not self._is_rebalancing:
            return
        shares: Mapping[str, frozenset[TopicPartition]] = generation.from_leader or generation.shares
        for member_id in shares:
            self._members.setdefault(member_id, MemberFacts(member_id, "", "", None))
        self._last, self._is_rebalancing = generation.number, False
        self._events.append(
            AssignmentMade(
                self.group_id,
                generation.number,
                self._protocol,
                generation.leader_id,
                tuple(self._members.values()),
                shares,
            )
        )

    def leave_answered(
        self, request: LeaveGroupRequest, response: LeaveGroupResponse, departure: Departure = LEAVES
    ) -> list[GroupEvent]:
        """Return the events that the answer to a LeaveGroup shows."""
        if response.error_code:
            return self._taken()
        leaving: list[tuple[str, str | None, str | None]] = (
            [(request.member_id, None, None)] if request.member_id else []
        )
        leaving += [(each.member_id, each.group_instance_id, each.reason) for each in request.members]
        failed = {each.member_id for each in response.members if each.error_code}
        for member_id, instance_id, reason in leaving:
            member = self._members.get(member_id) or self._static(instance_id)
            if member is not None and member_id not in failed:
                self._gone(member, departure.cause, reason, departure.silent_since)
                if not self._is_rebalancing:
                    self._started(departure.cause, member.member_id, reason)
        if self.is_empty and self._is_rebalancing:
            self._is_rebalancing = False
            self._events.append(AssignmentMade(self.group_id, self._last + 1, None, "", (), {}))
        return self._taken()

    def _static(self, instance_id: str | None) -> MemberFacts | None:
        if instance_id is None:
            return None
        return next((each for each in self._members.values() if each.instance_id == instance_id), None)

    def heartbeat_answered(self, response: HeartbeatResponse, facts: MemberFacts) -> list[GroupEvent]:
        """Return the events that the answer to a heartbeat shows."""
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS and not self._is_rebalancing:
            self._members.setdefault(facts.member_id, facts)
            self._started(Cause.UNKNOWN, None, None)
        else:
            self._unless_known(response.error_code, facts)
        return self._taken()

    def _unless_known(self, code: int, facts: MemberFacts) -> None:
        member = self._members.get(facts.member_id)
        if code == ErrorCode.UNKNOWN_MEMBER_ID and member is not None:
            self._gone(member, Cause.SESSION_EXPIRED)

    def _started(self, cause: Cause, member_id: str | None, reason: str | None) -> None:
        self._is_rebalancing = True
        self._events.append(RebalanceStarted(self.group_id, self._last, cause, member_id, reason, self._protocol))

    def _gone(
        self, member: MemberFacts, cause: Cause, reason: str | None = None, silent_since: Millis | None = None
    ) -> None:
        del self._members[member.member_id]
        self._subscriptions.pop(member.member_id, None)
        self._events.append(MemberGone(self.group_id, member, cause, reason, silent_since))

    def _taken(self) -> list[GroupEvent]:
        events, self._events = self._events, []
        return events
