"""Start and completion of the application's callbacks. `callbacks` defines their order."""

from typing import assert_never

from kohort.errors import ErrorCode
from kohort.member.any_member import AnyMember
from kohort.member.callbacks import Callback, CallbackKind


def start_next_callback(member: AnyMember) -> None:
    """Start the application's next callback if none runs; skip callbacks without partitions to revoke or lose."""
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
                actions.lost, actions.deleted = partitions or None, callback.deleted
            case CallbackKind.ASSIGN:
                member.owned |= callback.partitions
                actions.assign = callback.partitions
                member.callback_at = member.now
                return
            case _:
                assert_never(callback.kind)
        if partitions:
            member.callback_at = member.now
            return
        callbacks.done()


def complete_callback(member: AnyMember) -> Callback:
    """Complete the running callback and return it."""
    done = member.callbacks.done()
    member.callback_at = None
    if done.kind is CallbackKind.REVOKE:
        member.owned -= done.partitions
        member.commits.drop(done.partitions, ErrorCode.REBALANCE_IN_PROGRESS)
    return done
