"""When the coordinator is asked in place of members of consumer groups, whose heartbeats are held. Pure.

When something happens in a group, it is asked for all of them. It is also asked for a member whose last heartbeat was
long ago, and for one if nothing was heard of the group.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from kohort.coordinator.prompt import PromptHeartbeats
from kohort.gateway.groups.consumer_group import MirroredConsumerGroup, MirroredConsumerGroups, MirroredMember
from kohort.gateway.groups.outcome import PROBE_INTERVAL, Outcome, Probe, ProbeDue
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

AT_ONCE = 20
"""Members of one group for which the coordinator is asked at the same time."""
_ENDS_SOON: Millis = 200
"""Remaining hold of a heartbeat for which it is not worth to ask: the member sends the next one after it."""
_UNPUNCTUAL: Millis = 100
"""Time that a member's own heartbeat may be late before a probe replaces it, in a group that `affords_probes`."""
_LATE: Millis = 500
"""Time after which a member's heartbeat is not expected any more."""
_SHORTEST_WAIT: Millis = 100
"""Minimum time between two looks at the members of a group."""


@dataclass(slots=True)
class _Asking:
    """Members of one group for which the coordinator is or will be asked."""

    waiting: deque[str] = field(default_factory=deque)
    asked: dict[str, bool] = field(default_factory=dict)
    """Members with a probe under way, and whether something happened since it was sent."""


class ConsumerProbes:
    """The probes of all consumer groups of one gateway."""

    def __init__(self, groups: MirroredConsumerGroups) -> None:
        self._groups = groups
        self._asking: dict[str, _Asking] = {}
        self._at: dict[str, Millis] = {}
        """Time of each group's timer `ProbeDue`."""
        self._under_way: set[Hashable] = set()
        """Tokens of held heartbeats for which a probe is under way."""
        self.prompt: PromptHeartbeats
        """The prompt room, which has the held heartbeats."""

    def is_under_way(self, token: Hashable) -> bool:
        """Return whether a probe for this held heartbeat is under way."""
        return token in self._under_way

    def is_asked(self, member: MirroredMember) -> bool:
        """Return whether a probe for the member is under way."""
        asking = self._asking.get(member.group.group_id)
        return asking is not None and member.member_id in asking.asked

    def answered(self, probe: Probe) -> None:
        """Note that the coordinator has answered a probe. If something happened meanwhile, it is asked again."""
        self._under_way.discard(probe.token)
        request = probe.request
        asking = self._asking.get(request.group_id)
        if asking is not None and asking.asked.pop(request.member_id, False):
            asking.waiting.append(request.member_id)

    def lost(self, probe: Probe) -> None:
        """Forget a probe that was not sent, or whose connection was closed before its answer."""
        assert isinstance(probe.request, ConsumerGroupHeartbeatRequest)
        member = self._groups.member(probe.request)
        if member is not None:
            member.may_have_news = True  # its next heartbeat is passed on
        self._under_way.discard(probe.token)
        asking = self._asking.get(probe.request.group_id)
        if asking is not None:
            asking.asked.pop(probe.request.member_id, None)

    def ask_all(self, group: MirroredConsumerGroup, now: Millis, but: str) -> None:
        """Ask for every member of the group whose heartbeat is held, those with the fewest partitions first."""
        group.changed_at = now
        asking = self._asking.setdefault(group.group_id, _Asking())
        asking.asked |= dict.fromkeys(asking.asked.keys() - {but}, True)
        known = {*asking.asked, *asking.waiting, but}
        fresh = [member for member_id, member in group.members.items() if member_id not in known]
        asking.waiting += [member.member_id for member in sorted(fresh, key=lambda member: len(member.assigned))]

    def ask_for(self, member: MirroredMember) -> None:
        """Ask for this member, too, at the next call of `settle`."""
        self._asking.setdefault(member.group.group_id, _Asking()).waiting.append(member.member_id)

    def _ask(self, group: MirroredConsumerGroup, member_id: str, now: Millis, out: Outcome) -> None:
        held, member = self.prompt.held_of(group.group_id, member_id), group.members.get(member_id)
        if member is None or member_id in self._asking[group.group_id].asked:
            return
        if held is None:
            member.may_have_news = True  # its next heartbeat is passed on
        else:
            self.send(group, member, held.token, now, out)

    def send(
        self, group: MirroredConsumerGroup, member: MirroredMember, token: Hashable, now: Millis, out: Outcome
    ) -> None:
        """Send a probe for a member whose heartbeat is held."""
        self._asking.setdefault(group.group_id, _Asking()).asked[member.member_id] = False
        self._under_way.add(token)
        self._groups.count(group, member, now)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.group_id,
            member_id=member.member_id,
            member_epoch=member.epoch,
            instance_id=member.facts.instance_id,
        )
        out.probes.append(Probe(token, request))

    def settle(self, group: MirroredConsumerGroup, now: Millis, out: Outcome) -> None:
        """Send the probes that are due, and set or cancel the group's timer."""
        group_id, asking = group.group_id, self._asking.get(group.group_id)
        while asking is not None and asking.waiting and len(asking.asked) < AT_ONCE:
            self._ask(group, asking.waiting.popleft(), now, out)
        if not group.members:
            self._groups.forget(group_id)
            self._asking.pop(group_id, None)
            out.timers[ProbeDue(group_id)] = None
            self._at.pop(group_id, None)
        elif group_id not in self._at or self._at[group_id] > group.asked_at + self._spread(group, now):
            at = min(group.asked_at + self._spread(group, now), self._next_overdue_at(group, now))
            self._at[group_id] = out.timers[ProbeDue(group_id)] = max(at, now + _SHORTEST_WAIT)

    def due(self, group: MirroredConsumerGroup, now: Millis) -> Outcome:
        """Ask for members whose last heartbeat was long ago, and for one if nothing was heard of the group."""
        out, interval = Outcome(), self._longest_interval(group)
        self._at.pop(group.group_id, None)
        asking = self._asking.setdefault(group.group_id, _Asking())
        while len(asking.asked) < AT_ONCE:
            member = self._stalest(group, now, asked_until=now - interval)
            if member is None:
                break
            self._ask(group, member.member_id, now, out)
        silent = now - group.asked_at >= self._spread(group, now)
        if silent and (group.settles(now) or group.budget.allows(self._groups.heartbeats_per_ms(group), now)):
            member = self._stalest(group, now, asked_until=now)
            if member is not None:
                self._ask(group, member.member_id, now, out)
        self.settle(group, now, out)
        return out

    def _spread(self, group: MirroredConsumerGroup, now: Millis) -> Millis:
        """Return the time between two heartbeats of a group if they are spread evenly, but at least a second.

        It is a little longer, so that a member whose heartbeat is due then is not forestalled.
        """
        if group.settles(now):
            return PROBE_INTERVAL
        interval = self._groups.settings(group.group_id).heartbeat_interval_ms
        return max(PROBE_INTERVAL, interval // max(len(group.members), 1) + _ENDS_SOON)

    def _longest_interval(self, group: MirroredConsumerGroup) -> Millis:
        """Return the time after a member's heartbeat in which the coordinator gets another one for it."""
        interval = self._groups.settings(group.group_id).heartbeat_interval_ms
        return interval + _UNPUNCTUAL if self._groups.affords_probes(group) else interval

    def _next_overdue_at(self, group: MirroredConsumerGroup, now: Millis) -> Millis:
        """Return when the coordinator's next answer for a member will be older than its interval."""
        interval = self._longest_interval(group)
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
            if held is not None and held.due_at - now > _ENDS_SOON and not self.is_asked(member):
                return member
        return None
