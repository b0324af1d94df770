"""When members of a classic group with held heartbeats are notified of a rebalance.

Members of a cooperative assignor keep processing, and are notified at once. If a new member joins, they
are notified a moment later, because other new members may follow. Otherwise they would complete the
rebalance with the first one within a tenth of a second, and could then not be notified before their
next heartbeats: 3 s later for the Java client.

Members of an eager assignor give up everything when they are notified, and wait for the last one to be
notified. So they are notified together: as soon as every member has a held heartbeat, or the missing
heartbeats are overdue. They are notified of a leave together with the join that follows it; see
`RestartingMembers`.
"""

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.returning_members import somebody_is_away
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.subscriptions import CONSUMER, COOPERATIVE
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.timers import CollectingEnds
from kohort.model import Millis

_LIKELY_RHYTHM: Millis = 3_000
"""Default of heartbeat.interval.ms in most clients, assumed for members that have sent no heartbeat yet."""
_SLACK: Millis = 200
_A_MOMENT: Millis = 300
"""Time after a new member in which others are likely to follow, such as processes that one command starts."""
_MOST_MOMENTS: Millis = 600
"""Maximum time that the first new member waits for others."""


def tell_of_rebalance(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Notify members with held heartbeats of a rebalance that began, at once or later together."""
    if group.rebalance.gathers_until is not None:
        group.rebalance.collecting = True
        _gather_on(group, now, out)
    elif not groups.config.heartbeat_hold_ms:
        return
    elif _is_eager(group) and (until := _collects_until(groups, group, now)) > now:
        # Also if no heartbeat is held: otherwise the first member to send one would wait for the last.
        group.rebalance.collecting, group.rebalance.collects_until = True, until
        may_join_at = _all_may_join_at(group)
        out.timers[CollectingEnds(group.group_id)] = min(until, may_join_at) if may_join_at > now else until
    else:
        groups.holds.stir(group.group_id)


def gathers_until(groups: Groups, group: ClassicGroup, now: Millis) -> Millis | None:
    """Return the latest time until which a new member's rebalance waits for more; None if it does not wait.

    It waits only while every partition has an owner that processes it, so that only new members wait.
    It does not wait if the new member may be a restarted one, which arrives alone.
    """
    whole = group.state is GroupState.STABLE and group.rebalance.givers is None and group.is_cooperative
    if not (whole and groups.config.heartbeat_hold_ms) or somebody_is_away(group, now):
        return None
    return now + min(_MOST_MOMENTS, group.rebalance_timeout_ms // 2)


def _gather_on(group: ClassicGroup, now: Millis, out: Effects) -> None:
    latest = group.rebalance.gathers_until
    if latest is not None:
        out.timers[CollectingEnds(group.group_id)] = min(now + _A_MOMENT, latest)


def _collects_until(groups: Groups, group: ClassicGroup, now: Millis) -> Millis:
    """Return the latest time to notify the members: well before members not notified would be removed."""
    until = group.succession.until(now) if _successor_is_awaited(group) else now
    missing = _missing(groups, group)
    due = max(map(next_heartbeat_at, missing), default=now)
    if due > now:
        longest = max(member.rhythm_ms or _LIKELY_RHYTHM for member in missing)
        until = max(until, min(due + _SLACK, now + longest))
    until = max(until, _all_may_join_at(group))
    return min(until, now + group.rebalance_timeout_ms // 2)


def _all_may_join_at(group: ClassicGroup) -> Millis:
    """Return when all clients can send JoinGroup at once; some pause between two, and process nothing meanwhile."""
    joining = group.rebalance.joining
    waits = (m.joined_at + m.client.joins_every_ms for m in group.members.values() if m.member_id not in joining)
    return max(waits, default=0)


def next_heartbeat_at(member: Member) -> Millis:
    """Return when the next heartbeat is due of a member that has none in flight.

    Its client counts from the last one. A heartbeat that became due during the hold may be skipped:
    librdkafka checks its timer every heartbeat.interval.ms, regardless of what it resends in between,
    and sends none at that time if another is in flight.
    """
    rhythm = member.rhythm_ms or _LIKELY_RHYTHM
    last = member.ticked_at if member.client.keeps_its_clock and member.ticked_at else member.heard_at
    busy_for = max(member.released_at, member.heard_at) - last
    return last + (busy_for // rhythm + 1) * rhythm


def newcomer_is_there(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Handle the arrival of a new member: it may be the awaited successor, and others may follow."""
    group.succession.came(now)
    _gather_on(group, now, out)
    tell_when_all_are_in_hand(groups, group, now)


def tell_when_all_are_in_hand(groups: Groups, group: ClassicGroup, now: Millis) -> None:
    """Notify the remaining members, unless more are awaited or some eager members cannot be notified now."""
    if not group.rebalance.collecting or group.rebalance.gathers_until is not None:
        return
    if _is_eager(group) and (
        _successor_is_awaited(group) or _somebody_is_missing(groups, group) or _all_may_join_at(group) > now
    ):
        return
    _tell(groups, group)


def collecting_ended(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """End the collection of held heartbeats; members without one are notified when their next one arrives."""
    if group.state is GroupState.PREPARING_REBALANCE and group.rebalance.collecting:
        if now < group.rebalance.collects_until:  # from now on, all clients can join at once
            out.timers[CollectingEnds(group.group_id)] = group.rebalance.collects_until
            tell_when_all_are_in_hand(groups, group, now)
            return
        if group.succession.is_awaited and group.succession.until(now) <= now:
            group.succession.came_not()
        _tell(groups, group)


def _tell(groups: Groups, group: ClassicGroup) -> None:
    group.rebalance.collecting, group.rebalance.gathers_until = False, None
    groups.holds.stir(group.group_id)


def _successor_is_awaited(group: ClassicGroup) -> bool:
    """Return whether to wait for a successor; not after a known member rejoined, having given up everything."""
    return group.succession.is_awaited and all(group.members[one].is_new for one in group.rebalance.joining)


def _is_eager(group: ClassicGroup) -> bool:
    return group.protocol_type == CONSUMER and group.protocol is not None and group.protocol not in COOPERATIVE


def _missing(groups: Groups, group: ClassicGroup) -> list[Member]:
    """Return the members that still process and cannot be notified now."""
    joining, held = group.rebalance.joining, groups.holds.by_group.get(group.group_id, {})
    return [m for m in group.members.values() if m.member_id not in joining and m.member_id not in held]


def _somebody_is_missing(groups: Groups, group: ClassicGroup) -> bool:
    in_hand = len(group.rebalance.joining) + len(groups.holds.by_group.get(group.group_id, ()))
    return in_hand < len(group.members) or bool(_missing(groups, group))
