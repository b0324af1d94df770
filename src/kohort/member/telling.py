"""What the application is told and what it gave back. The order of the callbacks is `callbacks`' matter."""

from typing import assert_never

from kohort.errors import ErrorCode
from kohort.member.any_member import AnyMember
from kohort.member.callbacks import Callback, CallbackKind


def tell_next(member: AnyMember) -> None:
    """Give the application its next callback, if it is free; what would tell it nothing is passed over."""
    callbacks, actions = member.callbacks, member.actions
    while (callback := callbacks.start_next()) is not None:
        match callback.kind:
            case CallbackKind.REVOKE:
                partitions = callback.partitions & member.owned
                actions.revoke = partitions or None
            case CallbackKind.LOST:
                partitions = callback.partitions & member.owned
                member.owned -= partitions
                member.commits.drop(partitions, ErrorCode.ILLEGAL_GENERATION)
                actions.lost = partitions or None
            case CallbackKind.ASSIGN:
                member.owned |= callback.partitions
                actions.assign = callback.partitions
                member.told_at = member.now
                return
            case _:
                assert_never(callback.kind)
        if partitions:
            member.told_at = member.now
            return
        callbacks.done()


def told(member: AnyMember) -> Callback:
    """The application is done with what it was told last, which is returned."""
    done = member.callbacks.done()
    member.told_at = None
    if done.kind is CallbackKind.REVOKE:
        member.owned -= done.partitions
        member.commits.drop(done.partitions, ErrorCode.REBALANCE_IN_PROGRESS)
    return done
