"""All groups whose members use one gateway, as their requests and the coordinator's answers show them. Pure.

The coordinator is upstream and makes every answer. The prompt room decides when an answer leaves, as
it does for a coordinator of Kohort. It holds the heartbeats of members without news. When something
happens in their group, the gateway asks the coordinator again in their place, and passes on the
answer. Once a second, it also asks for one member of each group, because it does not see everything:
sessions that expire, new partitions, members that do not use the gateway.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from kohort.coordinator import (
    Effects,
    HeldHeartbeatsDue,
    HeldSyncsDue,
    NotificationDue,
    RequestContext,
    Timer,
    WaitingRequest,
)
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.errors import ErrorCode
from kohort.gateway.groups.classic_group import MirroredClassicGroup
from kohort.gateway.groups.classic_mirror import AT_ONCE, ClassicMirror
from kohort.gateway.groups.consumer_group import MirroredConsumerGroup, MirroredMember
from kohort.gateway.groups.outcome import PROBE_INTERVAL, Outcome, Probe, ProbeDue
from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ClassicRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a consumer group, as its coordinator's answers tell them."""

    heartbeat_interval_ms: Millis = 5_000
    session_timeout_ms: Millis = 45_000
    """No answer tells it; this is Kafka's default and its default minimum."""


@dataclass(slots=True)
class _Asking:
    """Members of one group for which the coordinator is or will be asked."""

    waiting: deque[str] = field(default_factory=deque)
    asked: dict[str, bool] = field(default_factory=dict)
    """Members with a probe under way, and whether something happened since it was sent."""


class GroupMirror:
    """The groups of one gateway. It implements `GroupFacts` for the prompt room."""

    def __init__(self, hold_ms: Millis) -> None:
        """Create a mirror that holds heartbeats for at most `hold_ms`, which is not 0."""
        self._consumer: dict[str, MirroredConsumerGroup] = {}
        self._settings: dict[str, Settings] = {}
        self._asking: dict[str, _Asking] = {}
        self._probe_set: set[str] = set()
        """Groups whose timer `ProbeDue` is set."""
        self._classic = ClassicMirror()
        self._prompt = self._classic.prompt = PromptHeartbeats(self, hold_ms)

    @property
    def held(self) -> int:
        """Number of heartbeats that are held."""
        return len(self._prompt.held)

    # Facts for the prompt room

    def settings(self, group_id: str, /) -> Settings:
        """Return the settings of a consumer group."""
        return self._settings.get(group_id) or Settings()

    def classic(self, group_id: str) -> MirroredClassicGroup | None:
        """Return the group with that ID if it is a classic group, else None."""
        return None if group_id in self._consumer else self._classic.groups.get(group_id)

    def consumer(self, group_id: str) -> MirroredConsumerGroup | None:
        """Return the group with that ID if it is a consumer group, else None."""
        return self._consumer.get(group_id)

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
        member = self._consumer[request.group_id].members[request.member_id]
        news, member.undelivered = member.undelivered, None
        assert news is not None, "the room is told of news when there is some"
        return news

    # Requests and responses of members of classic groups

    def sent(self, request: Message, context: RequestContext, now: Millis) -> Outcome:
        """Note a request of a classic group's member that was passed on."""
        out = Outcome()
        match request:
            case JoinGroupRequest():
                self._classic.joining(request, context, now, out)
                self._after_classic(request.group_id, now, out)
            case SyncGroupRequest():
                self._classic.syncing(request, now, out)
        return out

    def answered(self, request: Message, response: Message, context: RequestContext, now: Millis) -> Outcome:
        """Take the coordinator's answer to a request of a classic group's member, and pass it on or hold it."""
        out, classic = Outcome(), self._classic
        assert isinstance(request, ClassicRequest)
        if request.group_id in self._consumer:
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
        self._classic.settle(group_id, now, out)
        if self._prompt.ends_at is not None:
            out.effects.timers[HeldHeartbeatsDue()] = self._prompt.ends_at

    # Requests and responses of members of consumer groups

    def request(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        """Return what to send to the coordinator in place of a member's request, if it does not know its epoch yet."""
        member = self._member(request)
        if member is not None and member.undelivered is not None and 0 < request.member_epoch < member.epoch:
            # It is about to learn of that epoch from the answer. The coordinator would fence it.
            request.member_epoch = member.epoch
        return request

    def response(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        context: RequestContext,
        now: Millis,
    ) -> Outcome:
        """Take the coordinator's answer to a member's heartbeat, and answer the member or hold its heartbeat."""
        out = Outcome()
        group = self._consumer.get(request.group_id)
        if group is None:
            group = self._consumer[request.group_id] = MirroredConsumerGroup(request.group_id)
        facts = MemberFacts(
            response.member_id or request.member_id, context.client_id, context.client_host, request.instance_id
        )
        before = group.members.get(facts.member_id)
        undelivered = None if before is None else before.undelivered
        news = group.answered(request, response, facts, now)
        member = group.members.get(facts.member_id)
        if member is None:
            self._forget(group, facts.member_id)
        else:
            self._learn_interval(request.group_id, response)
            if undelivered is not None:
                member.undelivered = None
                response.assignment = response.assignment or undelivered.assignment
        self._prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        if news:
            self._ask_all(group, out, but=facts.member_id)
        self._after(group, now, out)
        return out

    def probed(
        self, probe: Probe, response: ConsumerGroupHeartbeatResponse | HeartbeatResponse, now: Millis
    ) -> Outcome:
        """Take the coordinator's answer to a probe."""
        out, request = Outcome(), probe.request
        if isinstance(request, HeartbeatRequest):
            self._classic.probed(probe, request, response.error_code, now, out)
            self._after_classic(request.group_id, now, out)
            return out
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        group, asking = self._consumer.get(request.group_id), self._asking.get(request.group_id)
        member = self._member(request)
        if asking is not None and asking.asked.pop(request.member_id, False):
            asking.waiting.append(request.member_id)
        if group is None or member is None:
            return out
        epoch_before = member.epoch
        news = group.answered(request, response, member.facts, now)
        if response.error_code or response.assignment is not None or response.member_epoch != epoch_before:
            if member.undelivered is not None and response.assignment is None:
                response.assignment = member.undelivered.assignment
            member.undelivered = response
            if request.member_id not in group.members:  # it must join again, and its held heartbeat tells it
                group.members[request.member_id] = member
            self._prompt.news_for_member(request.group_id, request.member_id)
            self._prompt.answer_news(now, out.effects)
            if response.error_code:
                group.members.pop(request.member_id, None)
                self._forget(group, request.member_id)
        if news:
            self._ask_all(group, out, but=request.member_id)
        self._after(group, now, out)
        return out

    def probe_lost(self, probe: Probe) -> None:
        """Forget a probe whose connection was closed before its answer."""
        if isinstance(probe.request, HeartbeatRequest):
            self._classic.probe_lost(probe.request)
            return
        asking = self._asking.get(probe.request.group_id)
        if asking is not None:
            asking.asked.pop(probe.request.member_id, None)

    def is_asked(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a probe for the member is under way. Its next heartbeat must wait for the answer.

        The answer may give it another epoch, and the coordinator fences a member that sends an older one.
        """
        asking = self._asking.get(request.group_id)
        return asking is not None and request.member_id in asking.asked

    def _member(self, request: ConsumerGroupHeartbeatRequest) -> MirroredMember | None:
        group = self._consumer.get(request.group_id)
        return None if group is None else group.members.get(request.member_id)

    def _learn_interval(self, group_id: str, response: ConsumerGroupHeartbeatResponse) -> None:
        known = self.settings(group_id)
        if response.heartbeat_interval_ms > 0 and known.heartbeat_interval_ms != response.heartbeat_interval_ms:
            self._settings[group_id] = Settings(response.heartbeat_interval_ms)

    def _forget(self, group: MirroredConsumerGroup, member_id: str) -> None:
        self._prompt.member_removed(group.group_id, member_id)

    # Probes

    def _ask_all(self, group: MirroredConsumerGroup, out: Outcome, but: str) -> None:
        """Ask for every member of the group whose heartbeat is held, those with the fewest partitions first."""
        asking = self._asking.setdefault(group.group_id, _Asking())
        asking.asked |= dict.fromkeys(asking.asked.keys() - {but}, True)
        known = {*asking.asked, *asking.waiting, but}
        fresh = [member for member_id, member in group.members.items() if member_id not in known]
        asking.waiting += [member.member_id for member in sorted(fresh, key=lambda member: len(member.assigned))]

    def _after(self, group: MirroredConsumerGroup, now: Millis, out: Outcome) -> None:
        """Send the probes that are due, and set or cancel the group's timer."""
        group_id, asking = group.group_id, self._asking.get(group.group_id)
        while asking is not None and asking.waiting and len(asking.asked) < AT_ONCE:
            self._ask(group, asking.waiting.popleft(), asking, out)
        if not group.members:
            del self._consumer[group_id]
            self._settings.pop(group_id, None)
            self._asking.pop(group_id, None)
            out.timers[ProbeDue(group_id)] = None
            self._probe_set.discard(group_id)
        elif group_id not in self._probe_set:
            self._probe_set.add(group_id)
            out.timers[ProbeDue(group_id)] = now + PROBE_INTERVAL
        if self._prompt.ends_at is not None:
            out.effects.timers[HeldHeartbeatsDue()] = self._prompt.ends_at

    def _ask(self, group: MirroredConsumerGroup, member_id: str, asking: _Asking, out: Outcome) -> None:
        held, member = self._prompt.held_of(group.group_id, member_id), group.members.get(member_id)
        if held is None or member is None or member_id in asking.asked:
            return
        asking.asked[member_id] = False
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.group_id,
            member_id=member_id,
            member_epoch=member.epoch,
            instance_id=member.facts.instance_id,
        )
        out.probes.append(Probe(held.token, request))

    # From the shell

    def fire(self, timer: Timer | ProbeDue, now: Millis) -> Outcome:
        """Handle a timer whose time has come."""
        out = Outcome()
        match timer:
            case ProbeDue(group_id):
                group = self._consumer.get(group_id)
                if group is None:
                    self._classic.probe_due(group_id, now, out)
                else:
                    self._probe_set.discard(group_id)
                    self._probe_next(group, now, out)
            case NotificationDue(group_id):
                self._classic.notification_due(group_id, now, out)
                self._after_classic(group_id, now, out)
            case HeldSyncsDue(group_id):
                self._classic.syncs_due(group_id, now, out)
            case _:
                assert isinstance(timer, HeldHeartbeatsDue)
                self._prompt.holds_due(now, out.effects)
        return out

    def _probe_next(self, group: MirroredConsumerGroup, now: Millis, out: Outcome) -> None:
        held = [member_id for member_id in group.members if self._prompt.is_held(group.group_id, member_id)]
        if held:
            asking = self._asking.setdefault(group.group_id, _Asking())
            chosen = held[now // PROBE_INTERVAL % len(held)]
            if chosen not in asking.asked:
                self._ask(group, chosen, asking, out)
        self._after(group, now, out)

    def release(self, token: Hashable, request: Message, behind: WaitingRequest, now: Millis) -> Outcome:
        """Answer a held request because another one waits behind it."""
        out = Outcome()
        if isinstance(request, SyncGroupRequest):
            self._classic.release_sync(request, token, now, out)
        else:
            self._prompt.release(token, behind, now, out.effects)
            answer = out.effects.replies.get(token)
            if (
                isinstance(request, HeartbeatRequest)
                and isinstance(answer, HeartbeatResponse)
                and answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            ):
                self._classic.refused(request)
        return out

    def disconnected(self, token: Hashable) -> None:
        """Drop a held heartbeat whose connection is closed."""
        self._prompt.disconnected(token)
