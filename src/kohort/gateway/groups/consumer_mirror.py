"""Consumer groups whose members use one gateway, as their requests and the coordinator's answers show them. Pure.

When something happens in a group, the gateway asks the coordinator in place of the members whose heartbeats are held,
and passes on the answers. What it cannot see it learns from answers as well: the coordinator gets a heartbeat of each
member once in its interval, from the member or from the gateway, and those of a group are spread over that time.
Heartbeats that a member sends in between tell nothing, and the gateway answers them itself.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from kohort.coordinator import RequestContext, reports_nothing
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.gateway.groups.consumer_group import MirroredConsumerGroup, MirroredMember
from kohort.gateway.groups.heartbeat_budget import HeartbeatBudget
from kohort.gateway.groups.outcome import PROBE_INTERVAL, Outcome, Probe, ProbeDue
from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

AT_ONCE = 20
"""Members of one group for which the coordinator is asked at the same time."""
SETTLING: Millis = 2_000
"""Time after something happened in which all heartbeats are passed on.

Changes follow each other, and the coordinator may compute an assignment up to a second after the change.
Source: group.consumer.assignment.interval.ms of Apache Kafka.
"""
_EARLY_PART = 20
"""A heartbeat is passed on if its interval is over but for this part of it: timers are not exact."""
_ENDS_SOON: Millis = 200
"""Remaining hold of a heartbeat for which it is not worth to ask: the member sends the next one after it."""
_LATE: Millis = 500
"""Time after which a member's heartbeat is not expected any more."""
_SHORTEST_WAIT: Millis = 100
"""Minimum time between two looks at the members of a group."""


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


class ConsumerMirror:
    """All consumer groups of one gateway."""

    def __init__(self) -> None:
        self.groups: dict[str, MirroredConsumerGroup] = {}
        self._settings: dict[str, Settings] = {}
        self._asking: dict[str, _Asking] = {}
        self._probe_at: dict[str, Millis] = {}
        """Time of each group's timer `ProbeDue`."""
        self._held: dict[Hashable, MirroredMember] = {}
        """Members whose heartbeats wait for an answer, by token."""
        self._under_way: set[Hashable] = set()
        """Tokens of held heartbeats for which a probe is under way."""
        self._late: dict[Hashable, ConsumerGroupHeartbeatResponse] = {}
        """Answers, by token, to heartbeats whose hold has ended while a probe is under way: if it brings no news."""
        self.prompt: PromptHeartbeats
        """The prompt room, which needs the facts of this mirror."""

    def settings(self, group_id: str) -> Settings:
        """Return the settings of a group."""
        return self._settings.get(group_id) or Settings()

    def news(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Return the news that the coordinator gave the gateway for this member.

        In a group that migrates, the room is also told of news for all members when the classic ones must rejoin. Then
        there is none for this member, and the room holds its heartbeat again.
        """
        member = self.groups[request.group_id].members[request.member_id]
        news, member.undelivered = member.undelivered, None
        return self._without_news(request.group_id, member) if news is None else news

    # Requests of members

    def covers(self, request: ConsumerGroupHeartbeatRequest, now: Millis) -> bool:
        """Return whether a heartbeat need not be passed on, because the coordinator's last answer is recent enough."""
        group, member = self.groups.get(request.group_id), self._member(request)
        if group is None or member is None or member.may_have_news or member.undelivered is not None:
            return False
        interval = self.settings(request.group_id).heartbeat_interval_ms
        return (
            0 < request.member_epoch == member.epoch
            and now - member.asked_at < interval - interval // _EARLY_PART
            and not _settles(group, now)
            and request.instance_id == member.facts.instance_id
            and reports_nothing(request)
        )

    def cover(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis) -> Outcome:
        """Hold or answer a heartbeat that is not passed on."""
        out, member = Outcome(), self._member(request)
        assert member is not None
        member.is_covered, member.heard_at = True, now
        self._held[context.token] = member
        response = self._without_news(request.group_id, member)
        self.prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        return out

    def passed_on(self, request: ConsumerGroupHeartbeatRequest, now: Millis) -> ConsumerGroupHeartbeatRequest:
        """Note a heartbeat that is passed on. Return it with the member's epoch, if the member does not know it yet."""
        group, member = self.groups.get(request.group_id), self._member(request)
        if group is None or member is None:
            return request
        member.is_covered, member.heard_at = False, now
        self._count(group, member, now)
        if member.undelivered is not None and 0 < request.member_epoch < member.epoch:
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
        group = self.groups.get(request.group_id)
        if group is None:
            group = self.groups[request.group_id] = MirroredConsumerGroup(request.group_id, HeartbeatBudget(now))
        facts = MemberFacts(
            response.member_id or request.member_id, context.client_id, context.client_host, request.instance_id
        )
        before = group.members.get(facts.member_id)
        undelivered = None if before is None else before.undelivered
        news = group.answered(request, response, facts, now)
        member = group.members.get(facts.member_id)
        if member is None:
            if before is not None:  # a heartbeat that it sent on another connection may still be held
                self._deliver(group, before, response, now, out)
            self.prompt.member_removed(group.group_id, facts.member_id)
        else:
            if before is None:
                member.heard_at = now
                self._count(group, member, now)
            self._held[context.token] = member
            self._learn_interval(request.group_id, response)
            if undelivered is not None:
                member.undelivered = None
                response.assignment = response.assignment or undelivered.assignment
        self.prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        if member is not None and member.may_have_news and self.prompt.is_held(group.group_id, member.member_id):
            # Something happened while this heartbeat was on its way.
            self._asking.setdefault(group.group_id, _Asking()).waiting.append(member.member_id)
        if news:
            self._ask_all(group, now, but=facts.member_id)
        self._after(group, now, out)
        return out

    def _member(self, request: ConsumerGroupHeartbeatRequest) -> MirroredMember | None:
        group = self.groups.get(request.group_id)
        return None if group is None else group.members.get(request.member_id)

    def _without_news(self, group_id: str, member: MirroredMember) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings(group_id).heartbeat_interval_ms,
        )

    def _count(self, group: MirroredConsumerGroup, member: MirroredMember, now: Millis) -> None:
        """Note a heartbeat that the coordinator gets."""
        del group.members[member.member_id]
        group.members[member.member_id] = member  # the last one in the order of these times
        member.asked_at = group.asked_at = now
        member.may_have_news = False
        if not _settles(group, now):
            group.budget.sent(self._heartbeats_per_ms(group), now)

    def _heartbeats_per_ms(self, group: MirroredConsumerGroup) -> float:
        return len(group.members) / self.settings(group.group_id).heartbeat_interval_ms

    def _learn_interval(self, group_id: str, response: ConsumerGroupHeartbeatResponse) -> None:
        known = self.settings(group_id)
        if response.heartbeat_interval_ms > 0 and known.heartbeat_interval_ms != response.heartbeat_interval_ms:
            self._settings[group_id] = Settings(response.heartbeat_interval_ms)

    # Ends of holds

    def ended(self, now: Millis, out: Outcome) -> None:
        """Keep the answers to heartbeats whose hold has ended if the coordinator must answer them first.

        That is so while a probe is under way. If the heartbeat was not passed on, and the member's next one would be
        too late, a probe is sent. Otherwise the member could wait for news for longer than without the gateway.
        """
        for token, answer in list(out.effects.replies.items()):
            if not isinstance(answer, ConsumerGroupHeartbeatResponse):
                continue
            if token not in self._under_way and (member := self._overdue(answer, token, now)) is not None:
                self._probe(member.group, member, token, now, out)
            if token in self._under_way:
                del out.effects.replies[token]
                self._late[token] = answer

    def _overdue(self, answer: ConsumerGroupHeartbeatResponse, token: Hashable, now: Millis) -> MirroredMember | None:
        """Return the member of a heartbeat that ends if the coordinator did not get it and its next one is too late."""
        member = self._held.get(token)
        if member is None or not member.is_covered or not answer.member_epoch == member.epoch > 0:
            return None
        if member.group.members.get(member.member_id) is not member or self._is_asked(member):
            return None
        # A client's timer begins when it sends a heartbeat, and anew when it gets another interval.
        begins = member.heard_at if answer.heartbeat_interval_ms == member.told_interval_ms else now
        interval = self.settings(member.group.group_id).heartbeat_interval_ms
        late = begins + answer.heartbeat_interval_ms > member.asked_at + interval
        return member if late else None

    def left(self, out: Outcome) -> None:
        """Note the answers that leave now."""
        for token, answer in out.effects.replies.items():
            member = self._held.pop(token, None)
            if member is not None and isinstance(answer, ConsumerGroupHeartbeatResponse):
                member.told_interval_ms = answer.heartbeat_interval_ms

    def disconnected(self, token: Hashable) -> None:
        """Forget a held heartbeat whose connection is closed."""
        self._held.pop(token, None)

    # Answers to probes

    def probed(self, probe: Probe, response: ConsumerGroupHeartbeatResponse, now: Millis) -> Outcome:
        """Take the coordinator's answer to a probe."""
        out, request = Outcome(), probe.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        self._under_way.discard(probe.token)
        late = self._late.pop(probe.token, None)
        group, asking = self.groups.get(request.group_id), self._asking.get(request.group_id)
        member = self._member(request)
        if asking is not None and asking.asked.pop(request.member_id, False):
            asking.waiting.append(request.member_id)
        if group is None or member is None:
            if late is not None:
                out.effects.replies[probe.token] = late
            return out
        epoch_before = member.epoch
        news = group.answered(request, response, member.facts, now)
        if not response.error_code and response.assignment is None and response.member_epoch == epoch_before:
            if late is not None:
                out.effects.replies[probe.token] = late
        elif late is not None:
            context = RequestContext(probe.token, 0, may_hold=True)
            self.prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        else:
            self._deliver(group, member, response, now, out)
        if response.error_code and request.member_id not in group.members:
            self.prompt.member_removed(group.group_id, request.member_id)
        if news:
            self._ask_all(group, now, but=request.member_id)
        self._after(group, now, out)
        return out

    def _deliver(
        self,
        group: MirroredConsumerGroup,
        member: MirroredMember,
        response: ConsumerGroupHeartbeatResponse,
        now: Millis,
        out: Outcome,
    ) -> None:
        """Answer a held heartbeat with news, or keep them for the next one."""
        if member.undelivered is not None and response.assignment is None and not response.error_code:
            response.assignment = member.undelivered.assignment
        member.undelivered = response
        is_removed = member.member_id not in group.members
        group.members[member.member_id] = member  # if it must join again, its held heartbeat tells it
        self.prompt.news_for_member(group.group_id, member.member_id)
        self.prompt.answer_news(now, out.effects)
        if is_removed:
            del group.members[member.member_id]

    def probe_lost(self, probe: Probe) -> None:
        """Forget a probe that was not sent, or whose connection was closed before its answer."""
        assert isinstance(probe.request, ConsumerGroupHeartbeatRequest)
        member = self._member(probe.request)
        if member is not None:
            member.may_have_news = True  # its next heartbeat is passed on
        self._under_way.discard(probe.token)
        self._late.pop(probe.token, None)
        asking = self._asking.get(probe.request.group_id)
        if asking is not None:
            asking.asked.pop(probe.request.member_id, None)

    def is_asked(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a probe for the member is under way. Its next heartbeat must wait for the answer.

        The answer may give it another epoch, and the coordinator fences a member that sends an older one.
        """
        member = self._member(request)
        return member is not None and self._is_asked(member)

    def _is_asked(self, member: MirroredMember) -> bool:
        asking = self._asking.get(member.group.group_id)
        return asking is not None and member.member_id in asking.asked

    # Probes

    def _ask_all(self, group: MirroredConsumerGroup, now: Millis, but: str) -> None:
        """Ask for every member of the group whose heartbeat is held, those with the fewest partitions first."""
        group.changed_at = now
        asking = self._asking.setdefault(group.group_id, _Asking())
        asking.asked |= dict.fromkeys(asking.asked.keys() - {but}, True)
        known = {*asking.asked, *asking.waiting, but}
        fresh = [member for member_id, member in group.members.items() if member_id not in known]
        asking.waiting += [member.member_id for member in sorted(fresh, key=lambda member: len(member.assigned))]

    def _ask(self, group: MirroredConsumerGroup, member_id: str, now: Millis, out: Outcome) -> None:
        held, member = self.prompt.held_of(group.group_id, member_id), group.members.get(member_id)
        if member is None or member_id in self._asking[group.group_id].asked:
            return
        if held is None:
            member.may_have_news = True  # its next heartbeat is passed on
        else:
            self._probe(group, member, held.token, now, out)

    def _probe(
        self, group: MirroredConsumerGroup, member: MirroredMember, token: Hashable, now: Millis, out: Outcome
    ) -> None:
        self._asking.setdefault(group.group_id, _Asking()).asked[member.member_id] = False
        self._under_way.add(token)
        self._count(group, member, now)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            instance_id=member.facts.instance_id,
        )
        out.probes.append(Probe(token, request))

    def _after(self, group: MirroredConsumerGroup, now: Millis, out: Outcome) -> None:
        """Send the probes that are due, and set or cancel the group's timer."""
        group_id, asking = group.group_id, self._asking.get(group.group_id)
        while asking is not None and asking.waiting and len(asking.asked) < AT_ONCE:
            self._ask(group, asking.waiting.popleft(), now, out)
        if not group.members:
            del self.groups[group_id]
            self._settings.pop(group_id, None)
            self._asking.pop(group_id, None)
            out.timers[ProbeDue(group_id)] = None
            self._probe_at.pop(group_id, None)
        elif group_id not in self._probe_at or self._probe_at[group_id] > group.asked_at + self._spread(group, now):
            at = min(group.asked_at + self._spread(group, now), self._next_overdue_at(group, now))
            self._probe_at[group_id] = out.timers[ProbeDue(group_id)] = max(at, now + _SHORTEST_WAIT)

    def probe_due(self, group: MirroredConsumerGroup, now: Millis) -> Outcome:
        """Ask for members whose last heartbeat was long ago, and for one if nothing was heard of the group."""
        out, interval = Outcome(), self.settings(group.group_id).heartbeat_interval_ms
        self._probe_at.pop(group.group_id, None)
        asking = self._asking.setdefault(group.group_id, _Asking())
        while len(asking.asked) < AT_ONCE:
            member = self._stalest(group, now, asked_until=now - interval)
            if member is None:
                break
            self._ask(group, member.member_id, now, out)
        silent = now - group.asked_at >= self._spread(group, now)
        if silent and (_settles(group, now) or group.budget.allows(self._heartbeats_per_ms(group), now)):
            member = self._stalest(group, now, asked_until=now)
            if member is not None:
                self._ask(group, member.member_id, now, out)
        self._after(group, now, out)
        return out

    def _spread(self, group: MirroredConsumerGroup, now: Millis) -> Millis:
        """Return the time between two heartbeats of a group if they are spread evenly, but at least a second.

        It is a little longer, so that a member whose heartbeat is due then is not forestalled.
        """
        if _settles(group, now):
            return PROBE_INTERVAL
        interval = self.settings(group.group_id).heartbeat_interval_ms
        return max(PROBE_INTERVAL, interval // max(len(group.members), 1) + _ENDS_SOON)

    def _next_overdue_at(self, group: MirroredConsumerGroup, now: Millis) -> Millis:
        """Return when the coordinator's next answer for a member will be older than its interval."""
        interval = self.settings(group.group_id).heartbeat_interval_ms
        for member in group.members.values():
            if member.asked_at + interval + _LATE > now:  # otherwise it sends none
                return member.asked_at + interval
        return now + interval

    def _stalest(self, group: MirroredConsumerGroup, now: Millis, *, asked_until: Millis) -> MirroredMember | None:
        """Return the member with the oldest answer, of `asked_until` or before, whose heartbeat stays held, if any."""
        for member_id, member in group.members.items():
            if member.asked_at > asked_until:
                break  # and so were all that follow
            held = self.prompt.held_of(group.group_id, member_id)
            if held is not None and held.due_at - now > _ENDS_SOON and not self._is_asked(member):
                return member
        return None


def _settles(group: MirroredConsumerGroup, now: Millis) -> bool:
    return now - group.changed_at < SETTLING
