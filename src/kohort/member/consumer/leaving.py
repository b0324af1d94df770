"""Leaving a consumer group: the application leaves, or the member leaves because the application stopped polling."""

from kohort.errors import ErrorCode
from kohort.member.callbacks import CallbackKind
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.state import ConsumerState, WantedTopics
from kohort.member.events import Leave
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_LEAVE_EPOCH, _STATIC_LEAVE_EPOCH = -1, -2
"""Member epochs for leaving. A static member that leaves temporarily keeps its partitions for its session."""


def begin_leaving(member: ConsumerState, event: Leave) -> None:
    """Begin to leave; the application gives up all partitions first, while heartbeats continue."""
    staying = member.wanted_subscription
    member.topics, member.expression = frozenset(), None
    if member.phase in (Phase.UNSUBSCRIBED, Phase.PREPARE_LEAVING, Phase.LEAVING):
        return
    member.leave, member.subscription_while_leaving = event, staying
    # If the member is not in the group, LOST runs before, and no partition is left to revoke.
    member.callbacks.add(CallbackKind.REVOKE, member.owned)
    member.enter(Phase.PREPARE_LEAVING)


def leave_if_possible(member: ConsumerState) -> None:
    """Leave once the callbacks are complete and their commits answered, with a last heartbeat if required."""
    if member.phase is Phase.PREPARE_LEAVING and member.callbacks.idle and not member.commits.blocks_rejoining:
        member.enter(Phase.LEAVING)
    if member.phase is not Phase.LEAVING or member.leave_heartbeat is not None:
        return
    if not member.may_be_member:
        _left(member)
    elif member.link.ready(member.now):
        member.commits.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
        member.leave_heartbeat = member.send(_leave_request(member))


def leave_answered(member: ConsumerState, code: ErrorCode) -> None:
    """Handle the answer to the last heartbeat; if the coordinator moved, look it up and repeat the request."""
    member.leave_heartbeat = None
    if code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        refused(member, code)
    else:
        # Any other error (unknown, fenced) means that the member is not in the group.
        _left(member)


def leave_if_overdue(member: ConsumerState) -> None:
    """Leave if the application does not poll: its partitions are not processed."""
    overdue = member.overdue_at()
    if overdue is None or member.now < overdue:
        return
    member.warn_overdue()
    if member.may_be_member and member.link.known:
        # Nothing waits for the answer.
        member.send(_leave_request(member))
    member.forget_epoch(ErrorCode.UNKNOWN_MEMBER_ID)
    member.callbacks.add(CallbackKind.LOST, member.owned)
    member.enter(Phase.STALE)


def rejoin_if_possible(member: ConsumerState) -> None:
    """Rejoin once the application has given up everything and, if the member was stale, polls again.

    If the application is in a poll, or never polls, the member was stale because a callback took too
    long; then it does not wait for a poll.
    """
    if not member.callbacks.idle:
        return
    if member.phase is Phase.FENCED:
        member.join(member.reason)
    elif member.phase is Phase.STALE and (member.polled_again or member.polled_at is None):
        member.join("the application polls again after max.poll.interval.ms")


def _leave_request(member: ConsumerState) -> ConsumerGroupHeartbeatRequest:
    for_good = member.leave is not None and member.leave.for_good
    return ConsumerGroupHeartbeatRequest(
        group_id=member.config.group_id,
        member_id=member.member_id,
        member_epoch=_STATIC_LEAVE_EPOCH if member.config.is_static and not for_good else _LEAVE_EPOCH,
        instance_id=member.config.instance_id,
    )


def _left(member: ConsumerState) -> None:
    member.forget_epoch(ErrorCode.UNKNOWN_MEMBER_ID)
    member.leave, member.subscription_while_leaving, member.polled_at = None, WantedTopics(), None
    member.enter(Phase.UNSUBSCRIBED)
    if member.topics or member.expression:
        member.join("the member is new")
