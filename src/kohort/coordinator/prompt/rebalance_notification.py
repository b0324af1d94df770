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

from kohort.coordinator.effects import Effects
from kohort.coordinator.prompt.client_timings import (
    CLIENT_TIMINGS,
    NEW_MEMBERS_FOLLOW,
    NEW_MEMBERS_FOLLOW_MAX,
    OVERDUE_MARGIN,
    USUAL_HEARTBEAT_INTERVAL,
)
from kohort.coordinator.prompt.facts import ClassicGroupFacts, ClassicMemberFacts
from kohort.coordinator.prompt.room_state import RoomState
from kohort.coordinator.timers import NotificationDue
from kohort.model import Millis


def rebalance_began(room: RoomState, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
    """Notify members with held heartbeats of a rebalance that began, at once or later together."""
    notice = group.notice
    group.restarts.generation_ended(group.generation_at)
    if notice.new_members_until is not None:
        notice.is_delayed = True
        _wait_for_new_members(group, now, out)
    elif group.is_eager and (due_at := _due_at(room, group, now)) > now:
        # Also if no heartbeat is held: otherwise the first member to send one would wait for the last.
        notice.is_delayed, notice.due_at = True, due_at
        may_join_at = _all_may_join_at(group)
        out.timers[NotificationDue(group.group_id)] = min(due_at, may_join_at) if may_join_at > now else due_at
    else:
        _notify(room, group, now)


def new_members_until(group: ClassicGroupFacts, now: Millis) -> Millis | None:
    """Return the latest time until which a new member's rebalance waits for more; None if it does not wait.

    It waits only while every partition has an owner that processes it, so that only new members wait.
    It does not wait if the new member may be a restarted one, which arrives alone.
    """
    if not (group.all_process and group.is_cooperative) or group.former_members.were_more_than(len(group.members), now):
        return None
    return now + min(NEW_MEMBERS_FOLLOW_MAX, group.rebalance_timeout_ms // 2)


def _wait_for_new_members(group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
    latest = group.notice.new_members_until
    if latest is not None:
        out.timers[NotificationDue(group.group_id)] = min(now + NEW_MEMBERS_FOLLOW, latest)


def _due_at(room: RoomState, group: ClassicGroupFacts, now: Millis) -> Millis:
    """Return the latest time to notify the members: well before members not notified would be removed."""
    latest = group.restarts.awaits_until(now) if _awaits_successor(group) else now
    missing = _unreachable(room, group)
    next_at = max(map(next_heartbeat_at, missing), default=now)
    if next_at > now:
        longest = max(member.heartbeats.interval_ms or USUAL_HEARTBEAT_INTERVAL for member in missing)
        latest = max(latest, min(next_at + OVERDUE_MARGIN, now + longest))
    latest = max(latest, _all_may_join_at(group))
    return min(latest, now + group.rebalance_timeout_ms // 2)


def _all_may_join_at(group: ClassicGroupFacts) -> Millis:
    """Return when all clients can send JoinGroup at once; some pause between two, and process nothing meanwhile."""
    rejoined = group.rejoined
    pauses = (
        member.joined_at + CLIENT_TIMINGS[member.client].join_interval_ms
        for member in group.members.values()
        if member.member_id not in rejoined
    )
    return max(pauses, default=0)


def next_heartbeat_at(member: ClassicMemberFacts) -> Millis:
    """Return when the next heartbeat is due of a member that has none in flight.

    Its client counts from the last one. A heartbeat that became due during the hold may be skipped:
    librdkafka checks its timer every heartbeat.interval.ms, regardless of what it resends in between,
    and sends none at that time if another is in flight.
    """
    history = member.heartbeats
    interval = history.interval_ms or USUAL_HEARTBEAT_INTERVAL
    by_timer = CLIENT_TIMINGS[member.client].resends_by_the_same_timer and history.timer_at
    last = history.timer_at if by_timer else history.heard_at
    busy_for = max(history.released_at, history.heard_at) - last
    return last + (busy_for // interval + 1) * interval


def new_member_arrived(room: RoomState, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
    """Handle the arrival of a new member: it may be the awaited successor, and others may follow."""
    group.restarts.member_arrived(now)
    _wait_for_new_members(group, now, out)
    notify_if_possible(room, group, now)


def notify_if_possible(room: RoomState, group: ClassicGroupFacts, now: Millis) -> None:
    """Notify the remaining members, unless more are awaited or some eager members cannot be notified now."""
    notice = group.notice
    if not notice.is_delayed or notice.new_members_until is not None:
        return
    if group.is_eager and (
        _awaits_successor(group) or _some_are_unreachable(room, group) or _all_may_join_at(group) > now
    ):
        return
    _notify(room, group, now)


def notification_due(room: RoomState, group: ClassicGroupFacts, now: Millis, out: Effects) -> None:
    """End the delay of the notification; members without a held heartbeat are notified when their next one arrives."""
    notice = group.notice
    if group.awaits_joins and notice.is_delayed:
        if now < notice.due_at:  # from now on, all clients can join at once
            out.timers[NotificationDue(group.group_id)] = notice.due_at
            notify_if_possible(room, group, now)
            return
        if group.restarts.awaits_successor(len(group.members)) and group.restarts.awaits_until(now) <= now:
            group.restarts.successor_missed()
        _notify(room, group, now)


def _notify(room: RoomState, group: ClassicGroupFacts, now: Millis) -> None:
    group.notice.is_delayed, group.notice.new_members_until = False, None
    group.restarts.members_notified(now)
    room.held.news_for_group(group.group_id)


def _awaits_successor(group: ClassicGroupFacts) -> bool:
    """Return whether to wait for a successor; not after a known member rejoined, having given up everything."""
    is_awaited = group.restarts.awaits_successor(len(group.members))
    return is_awaited and all(group.members[member_id].is_new for member_id in group.rejoined)


def _unreachable(room: RoomState, group: ClassicGroupFacts) -> list[ClassicMemberFacts]:
    """Return the members that still process and cannot be notified now."""
    rejoined, held = group.rejoined, room.held.by_group.get(group.group_id, {})
    return [m for m in group.members.values() if m.member_id not in rejoined and m.member_id not in held]


def _some_are_unreachable(room: RoomState, group: ClassicGroupFacts) -> bool:
    reachable = len(group.rejoined) + len(room.held.by_group.get(group.group_id, ()))
    return reachable < len(group.members) or bool(_unreachable(room, group))
