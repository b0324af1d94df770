"""Consumer groups whose members use one gateway, as their requests and the coordinator's answers show them. Pure.

When something happens in a group, the gateway asks the coordinator in place of the members whose heartbeats are held,
and passes on the answers. What it cannot see it learns from answers as well: the coordinator gets a heartbeat of each
member once in its interval, from the member or from the gateway, and those of a group are spread over that time.
Heartbeats that a member sends in between tell nothing, and the gateway answers them itself.
"""

from collections.abc import Hashable

from kohort.coordinator import RequestContext, reports_nothing
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.gateway.groups.consumer_group import (
    MirroredConsumerGroup,
    MirroredConsumerGroups,
    MirroredMember,
    Settings,
)
from kohort.gateway.groups.consumer_probes import ConsumerProbes
from kohort.gateway.groups.heartbeat_budget import HeartbeatBudget
from kohort.gateway.groups.outcome import Outcome, Probe
from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_EARLY_PART = 20
"""A heartbeat is passed on if its interval is over but for this part of it: timers are not exact."""


class ConsumerMirror:
    """All consumer groups of one gateway."""

    def __init__(self) -> None:
        self._groups = MirroredConsumerGroups()
        self.groups = self._groups.by_id
        self.probes = ConsumerProbes(self._groups)
        self._held: dict[Hashable, MirroredMember] = {}
        """Members whose heartbeats wait for an answer, by token."""
        self._late: dict[Hashable, ConsumerGroupHeartbeatResponse] = {}
        """Answers, by token, to heartbeats whose hold has ended while a probe is under way: if it brings no news."""
        self.prompt: PromptHeartbeats
        """The prompt room, which needs the facts of this mirror."""

    def settings(self, group_id: str) -> Settings:
        """Return the settings of a group."""
        return self._groups.settings(group_id)

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
        group, member = self.groups.get(request.group_id), self._groups.member(request)
        if group is None or member is None or member.may_have_news or member.undelivered is not None:
            return False
        interval = self.settings(request.group_id).heartbeat_interval_ms
        return (
            0 < request.member_epoch == member.epoch
            and now - member.asked_at < interval - interval // _EARLY_PART
            and not group.settles(now)
            and request.instance_id == member.facts.instance_id
            and reports_nothing(request)
            and not self._replaces_probes(group, member, now)
        )

    def _replaces_probes(self, group: MirroredConsumerGroup, member: MirroredMember, now: Millis) -> bool:
        """Return whether a member's heartbeat is passed on early, so that its next ones come when a probe would.

        Each of them saves a probe, which is half of the work in a large group. In a small one, probes between the
        heartbeats of its members let the gateway learn sooner what it does not see.
        """
        interval = self.settings(group.group_id).heartbeat_interval_ms
        is_regular = now - member.heard_at >= interval - interval // _EARLY_PART
        return (
            is_regular
            and self._groups.affords_probes(group)
            and group.budget.allows(self._groups.heartbeats_per_ms(group), now)
        )

    def cover(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Millis) -> Outcome:
        """Hold or answer a heartbeat that is not passed on."""
        out, member = Outcome(), self._groups.member(request)
        assert member is not None
        member.is_covered, member.heard_at = True, now
        self._held[context.token] = member
        response = self._without_news(request.group_id, member)
        self.prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        return out

    def passed_on(self, request: ConsumerGroupHeartbeatRequest, now: Millis) -> ConsumerGroupHeartbeatRequest:
        """Note a heartbeat that is passed on. Return it with the member's epoch, if the member does not know it yet."""
        group, member = self.groups.get(request.group_id), self._groups.member(request)
        if group is None or member is None:
            return request
        member.is_covered, member.heard_at = False, now
        self._groups.count(group, member, now)
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
        if self._holds_quiet(request, response, context, now, out):
            return out
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
                self._groups.count(group, member, now)
            self._held[context.token] = member
            self._groups.learn_interval(request.group_id, response)
            if undelivered is not None:
                member.undelivered = None
                response.assignment = response.assignment or undelivered.assignment
        self.prompt.answer_or_hold(request, context, response, now, out.effects, repeats_offers=False)
        if member is not None and member.may_have_news and self.prompt.is_held(group.group_id, member.member_id):
            # Something happened while this heartbeat was on its way.
            self.probes.ask_for(member)
        if news:
            self.probes.ask_all(group, now, but=facts.member_id)
        self.probes.settle(group, now, out)
        return out

    def _holds_quiet(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        context: RequestContext,
        now: Millis,
        out: Outcome,
    ) -> bool:
        """Hold a heartbeat without news in either direction, as most are. Return False if there may be news."""
        group = self.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if (
            group is None
            or member is None
            or not 0 < request.member_epoch == response.member_epoch == member.epoch
            or response.error_code
            or response.member_id != request.member_id
            or response.assignment is not None
            or response.computation is not None
            or response.refused is not None
            or response.heartbeat_interval_ms != self.settings(group.group_id).heartbeat_interval_ms
            or member.may_have_news
            or member.undelivered is not None
            or member.must_revoke
            or not context.may_hold
            or not reports_nothing(request)
            or self.prompt.hold_without_effects(request, context.token, now) is None
        ):
            return False
        self._held[context.token] = member
        self.probes.settle(group, now, out)
        return True

    def _without_news(self, group_id: str, member: MirroredMember) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings(group_id).heartbeat_interval_ms,
        )

    # Ends of holds

    def ended(self, now: Millis, out: Outcome) -> None:
        """Keep the answers to heartbeats whose hold has ended if the coordinator must answer them first.

        That is so while a probe is under way. If the heartbeat was not passed on, and the member's next one would be
        too late, a probe is sent. Otherwise the member could wait for news for longer than without the gateway.
        """
        for token, answer in list(out.effects.replies.items()):
            if not isinstance(answer, ConsumerGroupHeartbeatResponse):
                continue
            if not self.probes.is_under_way(token) and (member := self._overdue(answer, token, now)) is not None:
                self.probes.send(member.group, member, token, now, out)
            if self.probes.is_under_way(token):
                del out.effects.replies[token]
                self._late[token] = answer

    def _overdue(self, answer: ConsumerGroupHeartbeatResponse, token: Hashable, now: Millis) -> MirroredMember | None:
        """Return the member of a heartbeat that ends if the coordinator did not get it and its next one is too late."""
        member = self._held.get(token)
        if member is None or not member.is_covered or not answer.member_epoch == member.epoch > 0:
            return None
        if member.group.members.get(member.member_id) is not member or self.probes.is_asked(member):
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
        self.probes.answered(probe)
        late = self._late.pop(probe.token, None)
        group, member = self.groups.get(request.group_id), self._groups.member(request)
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
            self.probes.ask_all(group, now, but=request.member_id)
        self.probes.settle(group, now, out)
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

    def probe_lost(self, probe: Probe) -> Outcome:
        """Forget a probe that was not sent, or whose connection was closed before its answer.

        The answer to a heartbeat whose hold has ended leaves without it. Otherwise the member would wait for ever.
        """
        self.probes.lost(probe)
        out, late = Outcome(), self._late.pop(probe.token, None)
        if late is not None:
            out.effects.replies[probe.token] = late
        return out

    def is_asked(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return whether a probe for the member is under way. Its next heartbeat must wait for the answer.

        The answer may give it another epoch, and the coordinator fences a member that sends an older one.
        """
        member = self._groups.member(request)
        return member is not None and self.probes.is_asked(member)
