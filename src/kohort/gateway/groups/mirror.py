"""All groups whose members use one gateway, as their requests and the coordinator's answers show them. Pure.

The coordinator is upstream and makes every answer. The prompt room decides when an answer leaves, as
it does for a coordinator of Kohort. It holds the heartbeats of members without news. When something
happens in their group, the gateway asks the coordinator again in their place, and passes on the
answer. It also asks from time to time, because it does not see everything: sessions that expire, new
partitions, members that do not use the gateway.
"""

from collections.abc import Collection, Hashable

from kohort.coordinator import (
    INFERRED_GRACE,
    Effects,
    HeldHeartbeat,
    HeldHeartbeatsDue,
    HeldSyncsDue,
    NotificationDue,
    RequestContext,
    Timer,
    WaitingRequest,
    inferred_grace_ms,
    shortened_grace_ms,
    told_grace_ms,
)
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.errors import ErrorCode
from kohort.gateway.groups.classic_group import MirroredClassicGroup, MirroredClassicMember
from kohort.gateway.groups.classic_mirror import ClassicMirror
from kohort.gateway.groups.consumer_group import MirroredConsumerGroup, MirroredMember, Settings
from kohort.gateway.groups.consumer_mirror import ConsumerMirror
from kohort.gateway.groups.outcome import LeaveRequest, Outcome, Probe, ProbeDue
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_LEAVES = -1
"""Epoch of a heartbeat with which a member leaves."""
ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


class GroupMirror:
    """The groups of one gateway. It implements `GroupFacts` for the prompt room."""

    def __init__(self, hold_ms: Millis) -> None:
        """Create a mirror that holds heartbeats for at most `hold_ms`, which is not 0."""
        self._consumer, self._classic = ConsumerMirror(), ClassicMirror()
        self._prompt = self._consumer.prompt = self._classic.prompt = PromptHeartbeats(self, hold_ms)
        self._classic.probes.prompt = self._classic.syncs.prompt = self._prompt
        self._consumer.probes.prompt = self._prompt

    @property
    def held(self) -> int:
        """Number of heartbeats that are held."""
        return len(self._prompt.held)

    @property
    def all_held(self) -> Collection[HeldHeartbeat]:
        """The heartbeats that are held."""
        return self._prompt.held

    # Facts for the prompt room

    def settings(self, group_id: str, /) -> Settings:
        """Return the settings of a consumer group."""
        return self._consumer.settings(group_id)

    def classic(self, group_id: str) -> MirroredClassicGroup | None:
        """Return the group with that ID if it is a classic group, else None."""
        return None if group_id in self._consumer.groups else self._classic.groups.get(group_id)

    def consumer(self, group_id: str) -> MirroredConsumerGroup | None:
        """Return the group with that ID if it is a consumer group, else None."""
        return self._consumer.groups.get(group_id)

    def next_target_at(self, group_id: str) -> Millis:
        """Never called, because no group awaits its target here."""
        raise AssertionError(group_id)

    def classic_answer(self, request: HeartbeatRequest, now: Millis) -> ErrorCode:
        """Return the coordinator's answer to a heartbeat of a classic group that is held."""
        return self._classic.answer(request)

    def consumer_answer(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis, out: Effects
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the news that the coordinator gave the gateway for this member."""
        return self._consumer.news(request)

    # Requests and responses of members of classic groups

    def sent(self, request: Message, context: RequestContext, now: Millis) -> Outcome:
        """Note a request of a classic group's member that was passed on."""
        out = Outcome()
        match request:
            case JoinGroupRequest():
                self._classic.joining(request, context, now, out)
                self._after_classic(request.group_id, now, out)
            case SyncGroupRequest():
                self._classic.syncs.sent(request, now, out)
        return out

    def answered(self, request: Message, response: Message, context: RequestContext, now: Millis) -> Outcome:
        """Take the coordinator's answer to a request of a classic group's member, and pass it on or hold it."""
        out, classic = Outcome(), self._classic
        assert isinstance(request, ClassicRequest)
        if request.group_id in self._consumer.groups:
            # While it migrates, members are told of news one by one, and their generations differ.
            out.effects.replies[context.token] = response
            return out
        match request, response:
            case JoinGroupRequest(), JoinGroupResponse():
                classic.joined(request, response, context, now, out)
            case SyncGroupRequest(), SyncGroupResponse():
                classic.synced(request, response, context, now, out)
            case HeartbeatRequest(), HeartbeatResponse():
                classic.beat(request, response, context, now, out)
            case LeaveGroupRequest(), LeaveGroupResponse():
                classic.left(request, response, context, now, out)
            case _:
                raise AssertionError(request, response)
        self._after_classic(request.group_id, now, out)
        return out

    def abandoned(self, request: Message, token: Hashable) -> None:
        """Forget a request whose connection is closed, whether it is held or not answered yet."""
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            self._classic.abandoned(request, token)

    def _after_classic(self, group_id: str, now: Millis, out: Outcome) -> None:
        self._prompt.answer_news(now, out.effects)
        group = self._classic.groups.get(group_id)
        if group is not None:
            self._classic.probes.settle(group, now, out)
        if self._prompt.ends_at is not None:
            out.effects.timers[HeldHeartbeatsDue()] = self._prompt.ends_at

    # Requests and responses of members of consumer groups

    def covers(self, request: ConsumerGroupHeartbeatRequest, now: Millis) -> bool:
        """Return whether a member's heartbeat need not be passed on; see `cover`."""
        return self._consumer.covers(request, now)

    def cover(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis) -> Outcome:
        """Hold or answer a heartbeat that is not passed on."""
        return self._with_holds(self._consumer.cover(request, context, now))

    def request(self, request: ConsumerGroupHeartbeatRequest, now: Millis) -> ConsumerGroupHeartbeatRequest:
        """Return what to send to the coordinator in place of a member's request, if it does not know its epoch yet."""
        return self._consumer.passed_on(request, now)

    def response(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        context: RequestContext,
        now: Millis,
    ) -> Outcome:
        """Take the coordinator's answer to a member's heartbeat, and answer the member or hold its heartbeat."""
        return self._with_holds(self._consumer.response(request, response, context, now))

    def is_asked(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a probe for the member is under way. Its next heartbeat must wait for the answer."""
        return self._consumer.is_asked(request)

    def _with_holds(self, out: Outcome) -> Outcome:
        self._consumer.left(out)
        if self._prompt.ends_at is not None:
            out.effects.timers[HeldHeartbeatsDue()] = self._prompt.ends_at
        return out

    # Probes

    def probed(
        self, probe: Probe, response: ConsumerGroupHeartbeatResponse | HeartbeatResponse, now: Millis
    ) -> Outcome:
        """Take the coordinator's answer to a probe."""
        if isinstance(probe.request, HeartbeatRequest):
            out = Outcome()
            self._classic.probed(probe, probe.request, response.error_code, now, out)
            self._after_classic(probe.request.group_id, now, out)
            return out
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return self._with_holds(self._consumer.probed(probe, response, now))

    def probe_lost(self, probe: Probe) -> Outcome:
        """Forget a probe that was not sent, or whose connection was closed before its answer."""
        if isinstance(probe.request, HeartbeatRequest):
            self._classic.probes.lost(probe.request)
            return Outcome()
        return self._with_holds(self._consumer.probe_lost(probe))

    # Members whose connections closed

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Return whether the coordinator knows a member, as far as its answers tell."""
        return self._leaver(group_id, member_id) is not None

    def grace_ms(self, group_id: str, member_id: str, configured: Millis) -> Millis | None:
        """Return how long a disconnected member may take to reconnect; None if only its session counts.

        `configured` is a value of group.disconnect.grace.ms.
        """
        member = self._leaver(group_id, member_id)
        if member is None or not configured:
            return None
        if isinstance(member, MirroredClassicMember):
            inferred = inferred_grace_ms(member.interval_ms, member.session_timeout_ms)
            is_static = member.instance_id is not None
        else:
            usual = self._consumer.settings(group_id).heartbeat_interval_ms
            inferred = told_grace_ms(max(usual, member.told_interval_ms))
            is_static = member.facts.instance_id is not None
        if is_static:
            return None
        return inferred if configured == INFERRED_GRACE else configured

    def short_grace_ms(self, group_id: str, member_id: str, configured: Millis, who: tuple[str, str]) -> Millis | None:
        """Return how long a disconnected member may take to reconnect if its process is very likely gone.

        None if that is no shorter time, or if `who` lost the connection is not the client that joined as the member.
        Of a member that joined before the gateway started, the client counts that first spoke for it here.
        """
        grace, member = self.grace_ms(group_id, member_id, configured), self._leaver(group_id, member_id)
        if grace is None or member is None:
            return None
        facts = member.facts if isinstance(member, MirroredMember) else member
        return shortened_grace_ms(grace, configured, (facts.client_host, facts.client_id), who)

    def lost(self, group_id: str, member_id: str) -> LeaveRequest | None:
        """Return the request with which to leave in place of a member; None if it is gone, or is static."""
        member = self._leaver(group_id, member_id)
        if isinstance(member, MirroredMember) and member.facts.instance_id is None:
            return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=_LEAVES)
        if isinstance(member, MirroredClassicMember) and member.instance_id is None:
            member.is_lost = True
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        return None

    def _leaver(self, group_id: str, member_id: str) -> MirroredMember | MirroredClassicMember | None:
        consumer, classic = self.consumer(group_id), self.classic(group_id)
        if consumer is not None:
            return consumer.members.get(member_id)
        return None if classic is None else classic.members.get(member_id)

    # From the shell

    def fire(self, timer: Timer | ProbeDue, now: Millis) -> Outcome:
        """Handle a timer whose time has come."""
        out = Outcome()
        match timer:
            case ProbeDue(group_id):
                group = self.consumer(group_id)
                if group is not None:
                    return self._with_holds(self._consumer.probes.due(group, now))
                self._classic.probes.due(group_id, now, out)
            case NotificationDue(group_id):
                self._classic.notification_due(group_id, now, out)
                self._after_classic(group_id, now, out)
            case HeldSyncsDue(group_id):
                self._classic.syncs.due(group_id, now, out)
            case _:
                assert isinstance(timer, HeldHeartbeatsDue)
                self._prompt.holds_due(now, out.effects)
                self._consumer.ended(now, out)
                self._consumer.left(out)
        return out

    def release(self, token: Hashable, request: Message, behind: WaitingRequest, now: Millis) -> Outcome:
        """Answer a held request because another one waits behind it."""
        out = Outcome()
        if isinstance(request, SyncGroupRequest):
            self._classic.syncs.release_one(request, token, now, out)
        else:
            self._prompt.release(token, behind, now, out.effects)
            if isinstance(request, ConsumerGroupHeartbeatRequest) and behind is not WaitingRequest.OWN_HEARTBEAT:
                self._consumer.ended(now, out)
            self._consumer.left(out)
        return out

    def disconnected(self, token: Hashable) -> None:
        """Drop a held heartbeat whose connection is closed."""
        self._prompt.disconnected(token)
        self._consumer.disconnected(token)
