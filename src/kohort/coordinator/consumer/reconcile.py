"""Move one member toward its target assignment (KIP-848). Pure: the caller supplies every fact and appends the record
that the returned member implies.

A partition changes hands in three steps, each at a heartbeat of its own, so that it never has two owners: the one that
has it is told to give it up and stays at its epoch; it reports that it did, and moves to the target's epoch; then the
one that should have it is given it.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.model import UUID


def reconcile(
    member: ConsumerMember,
    target: Partitions,
    *,
    target_epoch: int,
    owned: Partitions | None,
    taken: Callable[[Partitions], Partitions],
) -> ConsumerMember:
    """Return the member's next state, or `member` itself when it must wait.

    `target` names only topics that the member subscribes to now. `owned` is what this heartbeat reported; None proves
    no revocation. `taken` gives those of some partitions that a member has, be it this one.
    """
    assert member.epoch <= target_epoch

    if member.revoking and (owned is None or member.revoking.overlaps(owned)):
        return member  # still holds a partition that it was told to give up
    keep = member.assigned & target
    revoke = member.assigned - keep
    if revoke and (owned is None or revoke.overlaps(owned)):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=keep, revoking=revoke)

    missing = target - keep
    # What it has just given up is free for itself, too: nobody else can have taken it (KAFKA-19449).
    held = taken(missing) - member.revoking
    state = MemberState.UNRELEASED_PARTITIONS if held else MemberState.STABLE
    assigned = target if not held else keep | (missing - held)
    return _arrived(member, target_epoch, state, assigned)


def withdraw(member: ConsumerMember, subscribed: Collection[UUID]) -> ConsumerMember:
    """Have a member that still owes a revocation also give up what it no longer subscribes to."""
    keep = member.assigned.of_topics(subscribed)
    if keep is member.assigned:
        return member
    return replace(member, assigned=keep, revoking=member.revoking | (member.assigned - keep))


def _arrived(member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions) -> ConsumerMember:
    """At the target's epoch. The previous epoch moves with the epoch alone, so that a lost answer may be asked for
    again as often as it is lost (Kafka forgets it at the second heartbeat of a member that waits)."""
    if (member.epoch, member.state, member.assigned, member.revoking) == (epoch, state, assigned, NOTHING):
        return member
    previous = member.epoch if member.epoch != epoch else member.previous_epoch
    return member.standing(epoch, previous, state, assigned, NOTHING)
