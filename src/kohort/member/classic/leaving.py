"""Ways out of a group: the application leaves, or it stopped polling and the member leaves for it."""

from kohort.errors import ErrorCode, error_code
from kohort.member.callbacks import CallbackKind
from kohort.member.classic.phases import IN_REBALANCE
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import NO_GENERATION, leave_request
from kohort.member.classic.standing import Standing
from kohort.member.events import Leave
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupResponse


def begin_leaving(member: Standing, event: Leave) -> None:
    """First the application gives everything up."""
    member.topics = frozenset()
    if member.phase is Phase.UNSUBSCRIBED or member.leave is not None:
        return
    member.leave = event
    member.callbacks.forget_waiting()
    member.callbacks.add(CallbackKind.LOST if member.generation is None else CallbackKind.REVOKE, member.owned)


def leave_rebalance_if_possible(member: Standing) -> None:
    """Whoever leaves goes on with the rebalance that it is in for as long as it has something to commit.

    Until every member has joined, the coordinator takes commits of the generation before. From then on it takes none
    until all are synced, and then those of the new one: whoever left the rebalance at once would lose its last commit.
    """
    if member.leave is None or member.phase is Phase.LEAVING:
        return
    if member.phase in IN_REBALANCE and (not member.callbacks.idle or member.commits.partitions):
        return
    if member.phase is Phase.JOINING and not member.member_id and not member.config.is_static:
        # KIP-394: an id that was handed out and is not used holds rebalances up until its session would have ended.
        member.id_request = member.phase_request
    member.commits.rebalanced()
    member.enter(Phase.LEAVING)


def must_say_goodbye(member: Standing) -> bool:
    """KIP-345: a static member only falls silent, unless it leaves for good."""
    assert member.leave is not None
    return bool(member.member_id) and (not member.config.is_static or member.leave.for_good)


def leave_if_possible(member: Standing) -> None:
    """Once the callbacks are through and their commits answered: say goodbye, or be gone."""
    assert member.leave is not None
    if not member.callbacks.idle or member.commits.blocks_rejoining:
        return
    if member.phase_request is not None or member.id_request is not None:
        return
    if not must_say_goodbye(member):
        _left(member)
    elif member.link.ready(member.now):
        member.commits.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
        request = leave_request(member.config, member.member_id, member.leave.reason)
        member.phase_request = member.send(request)


def leave_answered(member: Standing, response: LeaveGroupResponse) -> None:
    """The coordinator heard it, or another has to be told."""
    member.phase_request = None
    code = error_code(response.error_code)
    if code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        refused(member, code)
    else:
        # Whatever else it says (unknown, fenced): the group does not count us.
        _left(member)


def id_came(member: Standing, response: JoinGroupResponse) -> None:
    """The id that was on its way when the member began to leave."""
    member.id_request = None
    member.member_id = response.member_id


def _left(member: Standing) -> None:
    member.forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
    member.member_id = ""
    member.last_assignment, member.last_generation = None, NO_GENERATION
    member.leave, member.polled_at = None, None
    member.enter(Phase.UNSUBSCRIBED)
    if member.topics:
        member.prepare("the member is new")


def leave_if_overdue(member: Standing) -> None:
    """An application that does not poll holds partitions that nobody processes."""
    overdue = member.overdue_at()
    if overdue is None or member.now < overdue:
        return
    member.warn_overdue()
    if member.member_id and member.link.known and not member.config.is_static:
        # The others need not wait for a member that is stuck; whether it was heard, nobody waits to know.
        member.send(leave_request(member.config, member.member_id, "max.poll.interval.ms is over"))
    member.forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
    member.member_id = ""
    member.enter(Phase.STALE)


def rejoin_if_stale(member: Standing) -> None:
    """The application polls again, or is done with the callback that took too long."""
    if member.phase is Phase.STALE:
        member.callbacks.add(CallbackKind.LOST, member.owned)
        member.prepare("the application polls again after max.poll.interval.ms")
