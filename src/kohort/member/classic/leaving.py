"""Leaving a group: the application leaves, or the member leaves because the application stopped polling."""

from kohort.errors import ErrorCode, error_code
from kohort.member.callbacks import CallbackKind
from kohort.member.classic.phases import IN_REBALANCE
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import NO_GENERATION, leave_request
from kohort.member.classic.state import ClassicState
from kohort.member.events import Leave
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupResponse


def begin_leaving(member: ClassicState, event: Leave) -> None:
    """Begin to leave; the application gives up all partitions first."""
    member.topics = frozenset()
    if member.phase is Phase.UNSUBSCRIBED or member.leave is not None:
        return
    member.leave = event
    member.callbacks.forget_waiting()
    member.callbacks.add(CallbackKind.LOST if member.generation is None else CallbackKind.REVOKE, member.owned)


def leave_rebalance_if_possible(member: ClassicState) -> None:
    """Leave the rebalance when there is nothing left to commit.

    Until every member has joined, the coordinator accepts commits of the previous generation. After
    that it accepts none until all are synced, and then those of the new generation. So a member that
    left the rebalance at once would lose its last commit.
    """
    if member.leave is None or member.phase is Phase.LEAVING:
        return
    if member.phase in IN_REBALANCE and (not member.callbacks.idle or member.commits.partitions):
        return
    if member.phase is Phase.JOINING and not member.member_id and not member.config.is_static:
        # KIP-394: an ID that was handed out and is not used delays rebalances until its session would have ended.
        member.id_request = member.phase_request
    member.commits.rebalanced()
    member.enter(Phase.LEAVING)


def must_send_leave(member: ClassicState) -> bool:
    """Return whether to send LeaveGroup; a static member sends none, unless it leaves for good (KIP-345)."""
    assert member.leave is not None
    return bool(member.member_id) and (not member.config.is_static or member.leave.for_good)


def leave_if_possible(member: ClassicState) -> None:
    """Leave once the callbacks are complete and their commits answered, with a LeaveGroup if required."""
    assert member.leave is not None
    if not member.callbacks.idle or member.commits.blocks_rejoining:
        return
    if member.phase_request is not None or member.id_request is not None:
        return
    if not must_send_leave(member):
        _left(member)
    elif member.link.ready(member.now):
        member.commits.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
        request = leave_request(member.config, member.member_id, member.leave.reason)
        member.phase_request = member.send(request)


def leave_answered(member: ClassicState, response: LeaveGroupResponse) -> None:
    """Handle the answer to LeaveGroup; if the coordinator moved, look it up and repeat the request."""
    member.phase_request = None
    code = error_code(response.error_code)
    if code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        refused(member, code)
    else:
        # Any other error (unknown, fenced) means that the member is not in the group.
        _left(member)


def id_received(member: ClassicState, response: JoinGroupResponse) -> None:
    """Record the ID from a join that was in flight when the member began to leave."""
    member.id_request = None
    member.member_id = response.member_id


def _left(member: ClassicState) -> None:
    member.forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
    member.member_id = member.overdue_id = ""
    member.last_assignment, member.last_generation = None, NO_GENERATION
    member.leave, member.polled_at = None, None
    member.enter(Phase.UNSUBSCRIBED)
    if member.topics:
        member.prepare("the member is new")


def leave_if_overdue(member: ClassicState) -> None:
    """Leave if the application does not poll: its partitions are not processed."""
    overdue = member.overdue_at()
    if overdue is None or member.now < overdue:
        return
    member.warn_overdue()
    if member.member_id and not member.config.is_static:
        # The other members need not wait for this one.
        member.overdue_id, member.overdue_request = member.member_id, None
    member.forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
    member.member_id = ""
    member.enter(Phase.STALE)


def send_overdue_leave_if_possible(member: ClassicState) -> None:
    """Send the LeaveGroup of a member whose application does not poll, until one arrives.

    Nothing waits for the answer: the member may join again under another ID. The Java client sends one if it
    knows the coordinator at that moment. If not, the group waits for the old ID until its session ends.
    """
    if member.overdue_id and member.overdue_request is None and member.link.ready(member.now):
        request = leave_request(member.config, member.overdue_id, "max.poll.interval.ms is over")
        member.overdue_request = member.send(request)


def overdue_leave_ended(member: ClassicState, code: ErrorCode) -> None:
    """Handle the answer to that LeaveGroup, or its failure."""
    member.overdue_request = None
    if code in COORDINATOR_GONE or code.retriable:
        refused(member, code)
    else:
        member.overdue_id = ""


def rejoin_if_stale(member: ClassicState) -> None:
    """Rejoin, since the application polls again or has completed the callback that took too long."""
    if member.phase is Phase.STALE:
        member.callbacks.add(CallbackKind.LOST, member.owned)
        member.prepare("the application polls again after max.poll.interval.ms")
