"""When members of a classic group whose heartbeats are held are told that it rebalances.

Members of a cooperative assignor go on processing, and are told at once; but of a newcomer a moment later, as others
may come with it. Told of the first, they have shared with it in a tenth of a second, and then cannot be told anything
before their next heartbeats: for the Java client 3 s later. Members of an eager one give up everything when they are
told, and wait for whoever is told last. So they are told together: as soon as the heartbeat of everybody is in hand, or
those that are missing are overdue; and of a leave with the join that follows it, see `succession`.
"""

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.member import Member
from kohort.coordinator.returning import somebody_is_away
from kohort.coordinator.states import GroupState
from kohort.coordinator.subscriptions import CONSUMER, COOPERATIVE
from kohort.coordinator.timers import CollectingEnds
from kohort.model import Millis

_LIKELY_RHYTHM: Millis = 3_000
"""heartbeat.interval.ms of most clients, for members of which no heartbeat was seen."""
_SLACK: Millis = 200
_A_MOMENT: Millis = 300
"""So soon after a newcomer others are thought to come with it, as processes do that one command starts."""
_MOST_MOMENTS: Millis = 600
"""How long the first newcomer waits at most."""


def tell_of_rebalance(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """A rebalance began: tell those whose heartbeats are held, now or together."""
    if group.rebalance.gathers_until is not None:
        group.rebalance.collecting = True
        _gather_on(group, now, out)
    elif not groups.config.heartbeat_hold_ms:
        return
    elif _is_eager(group) and (until := _collects_until(groups, group, now)) > now:
        # Also where no heartbeat is in hand: the first to come would else wait for the last.
        group.rebalance.collecting, group.rebalance.collects_until = True, until
        may_join_at = _all_may_join_at(group)
        out.timers[CollectingEnds(group.group_id)] = min(until, may_join_at) if may_join_at > now else until
    else:
        groups.holds.stir(group.group_id)


def gathers_until(groups: Groups, group: ClassicGroup, now: Millis) -> Millis | None:
    """Until when at most a rebalance that begins with a newcomer waits for more; None where it does not wait.

    Only while everything has an owner that processes it, so that none but newcomers wait; and not where it may be one
    that was restarted, which comes alone.
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
    """When the members are told at the latest: well before those that were not told would be removed."""
    until = group.succession.until(now) if _successor_is_awaited(group) else now
    missing = _missing(groups, group)
    due = max(map(next_heartbeat_at, missing), default=now)
    if due > now:
        longest = max(member.rhythm_ms or _LIKELY_RHYTHM for member in missing)
        until = max(until, min(due + _SLACK, now + longest))
    until = max(until, _all_may_join_at(group))
    return min(until, now + group.rebalance_timeout_ms // 2)


def _all_may_join_at(group: ClassicGroup) -> Millis:
    """When all clients send their JoinGroups at once; some wait before the next, and process nothing meanwhile."""
    joining = group.rebalance.joining
    waits = (m.joined_at + m.client.joins_every_ms for m in group.members.values() if m.member_id not in joining)
    return max(waits, default=0)


def next_heartbeat_at(member: Member) -> Millis:
    """When the next heartbeat is due of a member that has none under way.

    Its client counts from the last one. One that became due during the hold may be left out: librdkafka looks at its
    clock every heartbeat.interval.ms, whatever it repeats in between, and sends none at that time if another is under
    way.
    """
    rhythm = member.rhythm_ms or _LIKELY_RHYTHM
    last = member.ticked_at if member.client.keeps_its_clock and member.ticked_at else member.heard_at
    busy_for = max(member.released_at, member.heard_at) - last
    return last + (busy_for // rhythm + 1) * rhythm


def newcomer_is_there(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Somebody is about to be a member: perhaps who was waited for, or not the last."""
    group.succession.came(now)
    _gather_on(group, now, out)
    tell_when_all_are_in_hand(groups, group, now)


def tell_when_all_are_in_hand(groups: Groups, group: ClassicGroup, now: Millis) -> None:
    """Tell those who are not told yet, if nobody else is waited for and eager members can all be told now."""
    if not group.rebalance.collecting or group.rebalance.gathers_until is not None:
        return
    if _is_eager(group) and (
        _successor_is_awaited(group) or _somebody_is_missing(groups, group) or _all_may_join_at(group) > now
    ):
        return
    _tell(groups, group)


def collecting_ended(groups: Groups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Whoever is not in hand is told when it comes."""
    if group.state is GroupState.PREPARING_REBALANCE and group.rebalance.collecting:
        if now < group.rebalance.collects_until:  # only now all clients join at once
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
    """Not if a member was told that had to be: it has given up everything, and waits for the others."""
    return group.succession.is_awaited and all(group.members[one].is_new for one in group.rebalance.joining)


def _is_eager(group: ClassicGroup) -> bool:
    return group.protocol_type == CONSUMER and group.protocol is not None and group.protocol not in COOPERATIVE


def _missing(groups: Groups, group: ClassicGroup) -> list[Member]:
    """Who still processes, and cannot be told now."""
    joining, held = group.rebalance.joining, groups.holds.by_group.get(group.group_id, {})
    return [m for m in group.members.values() if m.member_id not in joining and m.member_id not in held]


def _somebody_is_missing(groups: Groups, group: ClassicGroup) -> bool:
    in_hand = len(group.rebalance.joining) + len(groups.holds.by_group.get(group.group_id, ()))
    return in_hand < len(group.members) or bool(_missing(groups, group))
