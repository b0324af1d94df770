"""What the application is told and what it gave back. The order of the callbacks is `callbacks`' matter."""

from typing import assert_never

from kohort.errors import ErrorCode
from kohort.member.callbacks import NOTHING, CallbackKind
from kohort.member.phase import Phase
from kohort.member.standing import Standing


def tell_next(member: Standing) -> None:
    """Give the application its next callback, if it is free; what would tell it nothing is passed over."""
    callbacks, actions = member.callbacks, member.actions
    while (callback := callbacks.start_next()) is not None:
        match callback.kind:
            case CallbackKind.REVOKE:
                partitions = callback.partitions & member.owned
                actions.revoke = partitions or None
            case CallbackKind.LOST:
                partitions = member.owned
                member.owned = NOTHING
                member.commits.drop(partitions, ErrorCode.ILLEGAL_GENERATION)
                actions.lost = partitions or None
            case CallbackKind.ASSIGN:
                member.owned |= callback.partitions
                actions.assign = callback.partitions
                return
            case _:
                assert_never(callback.kind)
        if partitions:
            return
        callbacks.done()


def told(member: Standing) -> None:
    """The application is done with what it was told last."""
    done = member.callbacks.done()
    if done.kind is not CallbackKind.REVOKE:
        return
    member.owned -= done.partitions
    member.commits.drop(done.partitions, ErrorCode.REBALANCE_IN_PROGRESS)
    if member.phase is Phase.STABLE:
        # KIP-429: what was given up has no owner until the group assigns once more.
        member.rejoin = f"gave up {len(done.partitions)} partitions that the assignment moves"
