"""Ways out of a consumer group: the application leaves, or it stopped polling and the member leaves for it."""

from kohort.errors import ErrorCode
from kohort.member.callbacks import CallbackKind
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.standing import ConsumerStanding, Wish
from kohort.member.events import Leave
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_LEAVES, _LEAVES_FOR_A_WHILE = -1, -2
"""Member epochs. A static member that leaves for a while keeps its partitions until its session is over."""


def begin_leaving(member: ConsumerStanding, event: Leave) -> None:
    """First the application gives everything up, while heartbeats go on."""
    staying = member.wish
    member.topics, member.expression = frozenset(), None
    if member.phase in (Phase.UNSUBSCRIBED, Phase.PREPARE_LEAVING, Phase.LEAVING):
        return
    member.leave, member.staying_wish = event, staying
    member.callbacks.add(CallbackKind.LOST if member.generation is None else CallbackKind.REVOKE, member.owned)
    member.enter(Phase.PREPARE_LEAVING)


def leave_if_possible(member: ConsumerStanding) -> None:
    """Once the callbacks are through and their commits answered: say goodbye, or be gone."""
    if member.phase is Phase.PREPARE_LEAVING and member.callbacks.idle and not member.commits.blocks_rejoining:
        member.enter(Phase.LEAVING)
    if member.phase is not Phase.LEAVING or member.goodbye is not None:
        return
    if not member.may_be_counted:
        _left(member)
    elif member.link.ready(member.now):
        member.commits.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
        member.goodbye = member.send(_goodbye(member))


def goodbye_answered(member: ConsumerStanding, code: ErrorCode) -> None:
    """The coordinator heard it, or another has to be told."""
    member.goodbye = None
    if code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        refused(member, code)
    else:
        # Whatever else it says (unknown, fenced): the group does not count us.
        _left(member)


def leave_if_overdue(member: ConsumerStanding) -> None:
    """An application that does not poll holds partitions that nobody processes."""
    overdue = member.overdue_at()
    if overdue is None or member.now < overdue:
        return
    member.warn_overdue()
    if member.may_be_counted and member.link.known:
        # Whether it was heard, nobody waits to know.
        member.send(_goodbye(member))
    member.forget_epoch(ErrorCode.UNKNOWN_MEMBER_ID)
    member.callbacks.add(CallbackKind.LOST, member.owned)
    member.enter(Phase.STALE)


def rejoin_if_possible(member: ConsumerStanding) -> None:
    """Who was fenced joins anew as soon as the application has given everything up; who was stale, once it polls.

    One that is in a poll, or never polls, was stale because a callback took too long.
    """
    if not member.callbacks.idle:
        return
    if member.phase is Phase.FENCED:
        member.join(member.reason)
    elif member.phase is Phase.STALE and (member.returned or member.polled_at is None):
        member.join("the application polls again after max.poll.interval.ms")


def _goodbye(member: ConsumerStanding) -> ConsumerGroupHeartbeatRequest:
    for_good = member.leave is not None and member.leave.for_good
    return ConsumerGroupHeartbeatRequest(
        group_id=member.config.group_id,
        member_id=member.member_id,
        member_epoch=_LEAVES_FOR_A_WHILE if member.config.is_static and not for_good else _LEAVES,
        instance_id=member.config.instance_id,
    )


def _left(member: ConsumerStanding) -> None:
    member.forget_epoch(ErrorCode.UNKNOWN_MEMBER_ID)
    member.leave, member.staying_wish, member.polled_at = None, Wish(), None
    member.enter(Phase.UNSUBSCRIBED)
    if member.topics or member.expression:
        member.join("the member is new")
