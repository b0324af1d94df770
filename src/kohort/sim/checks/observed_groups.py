"""Observations of the groups of one coordinator: states, histories, and the last contact of members."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Set

from kohort.coordinator import GroupState, MetadataImage, SessionTimeout, Timer
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup
from kohort.model import UUID, Millis
from kohort.sim.checks.classic_groups import check_group
from kohort.sim.checks.consumer_groups import GroupHistory, check_consumer_group
from kohort.sim.violation import Violation

_SLACK: Millis = 1_000

AnyGroup = ClassicGroup | ConsumerGroup


def replaced_members(group: AnyGroup) -> frozenset[str]:
    """Return the members that are not found under their instance ids, because others have these."""
    return frozenset(
        member_id
        for member_id, member in group.members.items()
        if member.instance_id is not None and group.static_ids.get(member.instance_id) != member_id
    )


def check_instance_ids(group: AnyGroup, replaced: Set[str] = frozenset()) -> None:
    """Check that each instance id has one member, the one that the group finds under it (S12).

    `replaced` has members whose removal a damaged log has lost: the group has them until their sessions expire.
    """
    holders: dict[str, str] = {}
    for member_id, member in group.members.items():
        if member.instance_id is not None and member_id not in replaced:
            other = holders.setdefault(member.instance_id, member_id)
            if other != member_id:
                raise Violation(
                    "S12", f"{other} and {member_id} of {group.group_id} both have instance id {member.instance_id}"
                )
    if holders != group.static_ids:
        raise Violation("S12", f"{group.group_id} finds {group.static_ids} by instance ids, but has {holders}")


class ObservedGroups:
    """Observer of groups; the `check` methods compare a group with its observations."""

    def __init__(self, states: Counter[tuple[str, str]], join_phase_over: Callable[[str], None]) -> None:
        """Create the observer.

        `states` counts transitions. `join_phase_over` is called when the members of a classic group
        know a generation.
        """
        self.timers: dict[Timer, Millis] = {}
        """All timers that are set."""
        self.pasts: defaultdict[str, GroupHistory] = defaultdict(GroupHistory)
        """History of each consumer group since this coordinator loaded it."""
        self._counted = states
        self._join_phase_over = join_phase_over
        self._states: dict[str, GroupState] = {}
        self._consumer_states: dict[str, str] = {}
        self._sessions: defaultdict[str, dict[str, Millis]] = defaultdict(dict)
        """Time at which the session timer of each member fires, by group and member."""
        self._heard: defaultdict[str, dict[str, Millis]] = defaultdict(dict)
        """Last contact of each member of classic groups, by group and member."""
        self._waited: set[tuple[str, str]] = set()
        """Members that waited for a response at the last check of their group."""

    def loaded(self, group: AnyGroup, now: Millis) -> None:
        """Record that the coordinator loaded this group."""
        if isinstance(group, ConsumerGroup):
            self._consumer_states[group.group_id] = group.state.value
            return
        self._states[group.group_id] = group.state
        self._heard[group.group_id] = dict.fromkeys(group.members, now)

    def armed(self, timers: Mapping[Timer, Millis | None]) -> None:
        """Record that timers were set or cancelled."""
        for timer, at in timers.items():
            if at is None:
                self.cancelled(timer)
                continue
            self.timers[timer] = at
            if type(timer) is SessionTimeout:
                self._sessions[timer.group_id][timer.member_id] = at

    def cancelled(self, timer: Timer) -> None:
        """Record that a timer is no longer set."""
        self.timers.pop(timer, None)
        if type(timer) is SessionTimeout:
            self._sessions[timer.group_id].pop(timer.member_id, None)

    def fires(self, timer: Timer, now: Millis) -> None:
        """Record that a timer fires, possibly late.

        A coordinator that was suspended restarts the session of a member that waits for the
        response to its heartbeat.
        """
        if type(timer) is SessionTimeout and now > self.timers.get(timer, now) + _SLACK:
            self.heard(timer.group_id, timer.member_id, now)
        self.cancelled(timer)

    def heard(self, group_id: str, member_id: str, now: Millis) -> None:
        """Record a contact of a member of a classic group."""
        self._heard[group_id][member_id] = now

    def skip_time(self, by: Millis, living: Set[tuple[str, str]], postponed: Set[Timer]) -> None:
        """Record that the clock is about to jump: members that may live, and postponed timers, get more time."""
        for group_id, heard in self._heard.items():
            for member_id in heard:
                if (group_id, member_id) in living:
                    heard[member_id] += by
        for timer in postponed & self.timers.keys():
            self.timers[timer] += by

    def forget(self, group_id: str) -> None:
        """Forget a consumer group that was deleted or became a classic group."""
        self.pasts.pop(group_id, None)
        self._heard.pop(group_id, None)

    def check_consumer(
        self, group: ConsumerGroup, names: Mapping[UUID, str], image: MetadataImage, assignor: str
    ) -> None:
        """Compare a consumer group with its past; the arguments are those of `check_consumer_group`."""
        past, sessions = self.pasts[group.group_id], self._sessions[group.group_id]
        check_consumer_group(group, past, sessions, names, image, assignor)
        last, state = self._consumer_states.get(group.group_id, "Empty"), group.state.value
        if state != last:
            self._counted[f"consumer {last}", f"consumer {state}"] += 1
            self._consumer_states[group.group_id] = state

    def check_classic(self, group: ClassicGroup, now: Millis) -> None:
        """Compare a classic group with earlier observations."""
        group_id = group.group_id
        state = self._states.get(group_id, GroupState.EMPTY)
        begins = group.state is not state and group.state is GroupState.COMPLETING_REBALANCE
        if group.state is not state:
            self._counted[state.value, group.state.value] += 1
            self._states[group_id] = group.state
        check_group(group, self.timers)
        if begins:
            self._join_phase_over(group_id)
        self._check_sessions(group, now, begins=begins)

    def _check_sessions(self, group: ClassicGroup, now: Millis, *, begins: bool) -> None:
        group_id, rebalance = group.group_id, group.rebalance
        heard, sessions = self._heard[group_id], self._sessions[group_id]
        for member_id, member in group.members.items():
            waits = member_id in rebalance.joining or member_id in rebalance.syncing
            if waits or begins or (group_id, member_id) in self._waited or member_id not in heard:
                # No deadline applies to a member that waits for a response; its session begins with the
                # response. A new generation begins a session for every member, including static members that
                # did not join, as in Kafka.
                heard[member_id] = now
                (self._waited.add if waits else self._waited.discard)((group_id, member_id))
                if waits:
                    continue
            at = sessions.get(member_id)
            if at is None:
                raise Violation("L3", f"the session of {member_id} in {group_id} has no timer")
            latest = heard[member_id] + member.session_timeout_ms + _SLACK
            if at > latest:
                raise Violation(
                    "L3", f"the session of {member_id} in {group_id} ends at {at}, after its deadline {latest}"
                )
