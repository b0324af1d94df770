"""Skipped time: the shell's clock is about to jump, as a test kit lets it, and members that live shall not notice.

A jump takes away the time that a member has for its next request. So the deadlines of the members that live move with
the clock, and each of them has as much real time left as before. Deadlines of all others stay: they expire in the jump.
"""

from collections.abc import Set

from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.timers import (
    MemberRebalanceTimeout,
    PendingMemberTimeout,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
    Timer,
)
from kohort.model import Millis

MemberKey = tuple[str, str]
"""Group ID and member ID."""

_MARGIN: Millis = 1_000


def skip_time(
    groups: Groups, by: Millis, connected: Set[MemberKey], dead: Set[MemberKey], now: Millis
) -> frozenset[Timer]:
    """Move the deadlines of all members that live by `by`; return the timers that the shell must postpone as much.

    A member lives if the coordinator has a request of it to answer, or if it is `connected` and was heard within the
    time in which it is due to be heard. The caller knows better of those that are `dead`.
    """
    postponed: set[Timer] = set()
    for group in groups.by_id.values():
        # In the order of the members: their heartbeats are answered in the order in which their deadlines move.
        living = {
            member_id: None
            for member_id in group.members
            if (key := (group.group_id, member_id)) not in dead
            and (_waits(groups, group, member_id) or (key in connected and _is_heard(groups, group, member_id, now)))
        }.keys()
        if isinstance(group, ClassicGroup):
            postponed |= _spare_in_classic_group(groups, group, living, by)
        else:
            postponed |= _spare_in_consumer_group(groups, group, living, by)
    return frozenset(postponed)


def _waits(groups: Groups, group: Group, member_id: str) -> bool:
    """Return whether a request of the member waits for its answer, so that its client is connected."""
    if groups.prompt is not None and groups.prompt.is_held(group.group_id, member_id):
        return True
    if isinstance(group, ConsumerGroup):
        return False
    waiting = group.rebalance.joining.get(member_id) or group.rebalance.syncing.get(member_id)
    return waiting is not None and waiting.token is not None


def _is_heard(groups: Groups, group: Group, member_id: str, now: Millis) -> bool:
    """Return whether the member is not silent for longer than its heartbeats explain."""
    if isinstance(group, ClassicGroup):
        member = group.members[member_id]
        session, interval, heard = member.session_timeout_ms, member.heartbeats.interval_ms, member.last_heard
    else:
        settings, known = groups.settings(group.group_id), group.members[member_id]
        classic = known.classic
        session = settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        interval, heard = settings.heartbeat_interval_ms, known.last_heard(settings.session_timeout_ms)
    if heard is None:
        return True  # a member of a consumer group has just joined
    # A client may send heartbeats as rarely as its session allows; what is known of its interval is an inference.
    return now - heard <= max(session // 2, interval * 3 // 2 + _MARGIN)


def _spare_in_classic_group(groups: Groups, group: ClassicGroup, living: Set[str], by: Millis) -> set[Timer]:
    rebalance = group.rebalance
    for member_id in living:
        member = group.members[member_id]
        member.session_deadline += by
        if member.joined_at:
            member.joined_at += by
        if groups.prompt is not None:
            groups.prompt.skip_time_of_classic_member(member, group.group_id, by)
    # The owner of an ID that was just handed out has no member yet that could be connected.
    postponed: set[Timer] = {PendingMemberTimeout(group.group_id, member_id) for member_id in group.pending}
    if living - rebalance.joining.keys():
        postponed.add(RebalanceTimeout(group.group_id))
    if living & rebalance.sync_due:
        postponed.add(SyncTimeout(group.group_id))
    return postponed


def _spare_in_consumer_group(groups: Groups, group: ConsumerGroup, living: Set[str], by: Millis) -> set[Timer]:
    for member_id in living:
        group.skip_time_of_member(member_id, by)
        if groups.prompt is not None:
            groups.prompt.skip_time_of_member(group.group_id, member_id, by)
    # The deadline of a member that has just joined is only in its timer.
    postponed: set[Timer] = {
        SessionTimeout(group.group_id, member_id)
        for member_id in living
        if not group.members[member_id].session_deadline
    }
    return postponed | {MemberRebalanceTimeout(group.group_id, member_id) for member_id in living}
