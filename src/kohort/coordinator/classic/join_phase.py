"""The join phase of a rebalance: all members are asked to rejoin, and those that do form the next generation.

Members that do not rejoin within the rebalance timeout are removed. The assignment follows in `sync`.
"""

from collections.abc import Callable

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.rebalance import Rebalance
from kohort.coordinator.classic.records import empty_generation
from kohort.coordinator.classic.replies import join_refused, joined, sync_refused
from kohort.coordinator.classic.sessions import expect_heartbeat
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import (
    HeldSyncsDue,
    InitialRebalanceDelay,
    NotificationDue,
    RebalanceTimeout,
    SessionTimeout,
    SyncTimeout,
)
from kohort.errors import ErrorCode
from kohort.group_events import AssignmentMade, Cause, MemberGone, RebalanceReason, RebalanceStarted
from kohort.model import Millis


def begin(groups: ClassicGroups, group: ClassicGroup, why: RebalanceReason, now: Millis, out: Effects) -> bool:
    """Ask all members to rejoin, unless a rebalance is in its join phase already.

    The caller then changes the members and calls `proceed`. Returns whether a rebalance began.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return False
    for member_id, parked in group.rebalance.syncing.items():
        groups.answer(parked, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), out)
        # The member owed no heartbeats while it waited for its assignment.
        expect_heartbeat(groups, group, group.members[member_id], now, out)
    out.timers[SyncTimeout(group.group_id)] = out.timers[HeldSyncsDue(group.group_id)] = None
    if groups.prompt is not None and group.stored is not None:
        ended = ((member.group_instance_id, member.client_id) for member in group.stored.members)
        groups.prompt.generation_ended(group, ended, now)
    if group.state is GroupState.EMPTY:
        group.rebalance = Rebalance(initial=True, delay_ms=groups.config.initial_rebalance_delay_ms)
    else:
        group.rebalance = Rebalance()
    group.transition_to(GroupState.PREPARING_REBALANCE)
    out.events.append(
        RebalanceStarted(group.group_id, group.generation, why.cause, why.member_id, why.reason, group.protocol)
    )
    return True


def proceed(groups: ClassicGroups, group: ClassicGroup, began: bool, now: Millis, out: Effects) -> None:
    """Complete the join phase or wait, after a change of the expected or joined members.

    Only the start of a rebalance sets its deadline; members that join later do not extend it.
    """
    rebalance = group.rebalance
    if began and groups.prompt is not None:
        groups.prompt.rebalance_began(group, now, out)
    if not began:
        complete_if_all_joined(groups, group, now, out)
    elif rebalance.initial:
        rebalance.remaining_ms = max(group.rebalance_timeout_ms - rebalance.delay_ms, 0)
        out.timers[InitialRebalanceDelay(group.group_id)] = now + rebalance.delay_ms
        complete_if_all_joined(groups, group, now, out)
    elif group.all_have_joined:
        complete(groups, group, now, out)
    else:
        out.timers[RebalanceTimeout(group.group_id)] = now + group.rebalance_timeout_ms


def begin_and_proceed(
    groups: ClassicGroups, group: ClassicGroup, why: RebalanceReason, now: Millis, out: Effects
) -> None:
    """Begin a rebalance for a change of the members that has already been made."""
    proceed(groups, group, begin(groups, group, why, now, out), now, out)


def complete_if_all_joined(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Complete the join phase when all have joined; the initial one lasts its delay unless known members return."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    if group.all_have_joined and (not group.rebalance.initial or _have_returned(groups, group, now)):
        complete(groups, group, now, out)
    elif groups.prompt is not None:
        groups.prompt.members_changed(group, now)


def _have_returned(groups: ClassicGroups, group: ClassicGroup, now: Millis) -> bool:
    """Return whether all former members of an empty group are back, so that it need not wait for more."""
    members = ((member.instance_id, member.client_id) for member in group.members.values())
    return groups.prompt is not None and groups.prompt.have_returned(group, members, now)


def initial_rebalance_delay_over(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Extend the initial delay in steps while members keep joining, up to the rebalance timeout."""
    rebalance = group.rebalance
    if group.state is not GroupState.PREPARING_REBALANCE or not rebalance.initial:
        return
    if rebalance.member_added and rebalance.remaining_ms > 0:
        rebalance.member_added = False
        leg = min(groups.config.initial_rebalance_delay_ms, rebalance.remaining_ms)
        rebalance.remaining_ms = max(rebalance.remaining_ms - rebalance.delay_ms, 0)
        rebalance.delay_ms = leg
        out.timers[InitialRebalanceDelay(group.group_id)] = now + leg
    else:
        complete(groups, group, now, out)


def rebalance_timed_out(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Complete the join phase without the members that have not joined."""
    if group.state is GroupState.PREPARING_REBALANCE:
        complete(groups, group, now, out)


def complete(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Form the next generation from the members that have joined, answer them, and wait for the assignment.

    Static members stay in the group even if they have not joined: they may be restarting, and only their
    session timeout removes them (KAFKA-8220).
    """
    out.timers[InitialRebalanceDelay(group.group_id)] = out.timers[NotificationDue(group.group_id)] = None
    out.timers[RebalanceTimeout(group.group_id)] = None
    _remove_absent(group, out)
    if groups.prompt is not None:
        groups.prompt.news_for_group(group.group_id)  # heartbeats of the previous generation must not stay held
    if not group.members:
        _become_empty(group, now, out)
    elif not group.elect_leader():
        # Only static members are left and none of them has joined; their session timeouts end this state.
        out.timers[RebalanceTimeout(group.group_id)] = now + group.rebalance_timeout_ms
    else:
        _start_generation(groups, group, now, out)


def _remove_absent(group: ClassicGroup, out: Effects) -> None:
    joining = group.rebalance.joining
    absent = [m for m in group.members.values() if m.member_id not in joining and m.instance_id is None]
    for member in absent:
        group.remove(member.member_id)
        out.timers[SessionTimeout(group.group_id, member.member_id)] = None
        out.events.append(MemberGone(group.group_id, member.facts, Cause.REBALANCE_TIMEOUT, None))


def _become_empty(group: ClassicGroup, now: Millis, out: Effects) -> None:
    record = empty_generation(group, group.generation + 1, now)
    out.records.append(record)
    out.events.append(AssignmentMade(group.group_id, group.generation + 1, None, "", (), {}))


def _start_generation(groups: ClassicGroups, group: ClassicGroup, now: Millis, out: Effects) -> None:
    group.generation += 1
    group.protocol = group.vote()
    group.transition_to(GroupState.COMPLETING_REBALANCE)
    rebalance = group.rebalance
    parked, rebalance.joining = rebalance.joining, {}
    for member_id, member in group.members.items():
        groups.answer(parked.get(member_id), joined(group, member_id), out)
        member.is_new = False
        expect_heartbeat(groups, group, member, now, out)
    rebalance.sync_due = set(group.members)
    out.timers[SyncTimeout(group.group_id)] = now + group.rebalance_timeout_ms


def reject_parked_requests(
    groups: ClassicGroups,
    group: ClassicGroup,
    join_code: Callable[[str], ErrorCode],
    sync_code: Callable[[str], ErrorCode],
    out: Effects,
) -> None:
    """Reject all parked requests of a rebalance that will not complete here, with the code for each member ID."""
    for member_id, parked in group.rebalance.joining.items():
        groups.answer(parked, join_refused(join_code(member_id), member_id, parked.api_version), out)
    for member_id, parked in group.rebalance.syncing.items():
        groups.answer(parked, sync_refused(sync_code(member_id)), out)
