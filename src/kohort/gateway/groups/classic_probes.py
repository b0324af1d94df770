"""When a gateway asks the coordinator of a classic group for one of its members. Pure."""

from collections.abc import MutableMapping

from kohort.coordinator import HeldSyncsDue, NotificationDue
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.gateway.groups.classic_group import MirroredClassicGroup
from kohort.gateway.groups.outcome import PROBE_INTERVAL, Outcome, Probe, ProbeDue
from kohort.model import Millis
from kohort.wire.messages.heartbeat import HeartbeatRequest

FIRST_REPEAT: Millis = 10
"""Time after which the coordinator is asked again whether a JoinGroup began a rebalance; it doubles each time.

The probe may have overtaken the JoinGroup, which is on another connection.
"""
_FORGOTTEN_AFTER = 2
"""Session timeouts after which a member that sent nothing is forgotten."""
AT_ONCE = 20
"""Members of one group for which the coordinator is asked at the same time."""


class ClassicProbes:
    """Probes of all classic groups of one gateway."""

    def __init__(self, groups: MutableMapping[str, MirroredClassicGroup]) -> None:
        """Groups that nobody uses any more are removed from `groups`."""
        self._groups = groups
        self._set: set[str] = set()
        """Groups whose timer `ProbeDue` is set."""
        self.prompt: PromptHeartbeats
        """The prompt room, which knows the held heartbeats."""

    def suspect(self, group: MirroredClassicGroup, out: Outcome, now: Millis) -> None:
        """Ask the coordinator for one member whether a rebalance has begun."""
        if not group.awaits_joins:
            group.suspects_in = FIRST_REPEAT
            group.ask_again = bool(group.probed)
            self.ask_one(group, out, now)
            self._set.add(group.group_id)
            out.timers[ProbeDue(group.group_id)] = now + FIRST_REPEAT

    def ask(self, group: MirroredClassicGroup, member_id: str) -> None:
        """Ask for a member whose request is held as soon as few others are asked for."""
        if self.prompt.is_held(group.group_id, member_id) or member_id in group.syncs:
            group.to_ask[member_id] = None

    def ask_one(self, group: MirroredClassicGroup, out: Outcome, now: Millis) -> None:
        """Ask for the member of the generation that has waited longest, unless one is asked for already."""
        if group.probed or group.to_ask:
            return
        held = [
            member_id
            for member_id in group.members
            if (one := self.prompt.held_of(group.group_id, member_id)) is not None
            and isinstance(one.request, HeartbeatRequest)
            and one.request.generation_id == group.generation
        ]
        if held:
            self._send(group, held[now // PROBE_INTERVAL % len(held)], out, now)
        elif group.syncs:
            self._send(group, next(iter(group.syncs)), out, now)

    def _send(self, group: MirroredClassicGroup, member_id: str, out: Outcome, now: Millis) -> None:
        held, sync = self.prompt.held_of(group.group_id, member_id), group.syncs.get(member_id)
        if member_id in group.probed or member_id not in group.members:
            return
        if held is not None and isinstance(held.request, HeartbeatRequest):
            token, generation = held.token, held.request.generation_id
        elif sync is not None:
            token, generation = sync.token, sync.request.generation_id
        else:
            return
        request = HeartbeatRequest(
            group_id=group.group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=group.members[member_id].instance_id,
        )
        group.probed[member_id] = None
        group.budget.sent(group.heartbeats_per_ms(now), now)
        out.probes.append(Probe(token, request))

    def due(self, group_id: str, now: Millis, out: Outcome) -> None:
        """Handle the timer `ProbeDue`."""
        self._set.discard(group_id)
        group = self._groups.get(group_id)
        if group is None:
            return
        if group.has_idled_for(_FORGOTTEN_AFTER, now):
            del self._groups[group_id]
            return
        if not group.awaits_joins:
            if group.suspects_in:
                group.suspects_in = min(group.suspects_in * 2, PROBE_INTERVAL)
                self.ask_one(group, out, now)
            elif now - group.answered_at >= PROBE_INTERVAL // 2 and group.budget.allows(
                group.heartbeats_per_ms(now), now
            ):
                self.ask_one(group, out, now)
        self.settle(group, now, out)

    def settle(self, group: MirroredClassicGroup, now: Millis, out: Outcome) -> None:
        """Send the probes that are due, and set the group's timer."""
        while group.to_ask and len(group.probed) < AT_ONCE:
            member_id = next(iter(group.to_ask))
            del group.to_ask[member_id]
            self._send(group, member_id, out, now)
        if not group.members and not group.joins:
            self._groups.pop(group.group_id, None)
            self._set.discard(group.group_id)
            for timer in (NotificationDue(group.group_id), HeldSyncsDue(group.group_id)):
                out.effects.timers[timer] = None
            out.timers[ProbeDue(group.group_id)] = None
            return
        if not group.joins:
            group.suspects_in = 0
        if group.group_id not in self._set:
            self._set.add(group.group_id)
            out.timers[ProbeDue(group.group_id)] = now + (group.suspects_in or PROBE_INTERVAL)

    def lost(self, request: HeartbeatRequest) -> None:
        """Forget a probe whose connection is closed."""
        group = self._groups.get(request.group_id)
        if group is not None:
            group.probed.pop(request.member_id, None)
