"""Move one member toward its target assignment (KIP-848).

The functions are pure: the caller supplies every fact, and appends the record that the returned
member implies.

A partition changes owners in three steps, each in a separate heartbeat, so it never has two owners.
First, the owner receives the revocation, and stays at its epoch. Then it reports that it has
revoked the partition, and moves to the target epoch. Finally, the new owner receives the partition.
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
    """Return the member's next state, or `member` itself if it must wait.

    `target` contains only topics to which the member currently subscribes. `owned` is what this
    heartbeat reported; None proves no revocation. `taken` returns which of the given partitions
    have an owner, which may be this member.
    """
    assert member.epoch <= target_epoch

    if member.revoking and (owned is None or member.revoking.overlaps(owned)):
        return member  # still holds a partition that it must revoke
    keep = member.assigned & target
    revoke = member.assigned - keep
    if revoke and (owned is None or revoke.overlaps(owned)):
        return replace(member, state=MemberState.UNREVOKED_PARTITIONS, assigned=keep, revoking=revoke)

    missing = target - keep
    # Partitions that the member has just revoked are free for the member itself, too: no other
    # member can have taken them (KAFKA-19449).
    held = taken(missing) - member.revoking
    state = MemberState.UNRELEASED_PARTITIONS if held else MemberState.STABLE
    assigned = target if not held else keep | (missing - held)
    return _arrived(member, target_epoch, state, assigned)


def withdraw(member: ConsumerMember, subscribed: Collection[UUID]) -> ConsumerMember:
    """Revoke also the partitions of topics to which a member with a pending revocation no longer subscribes."""
    keep = member.assigned.of_topics(subscribed)
    if keep is member.assigned:
        return member
    return replace(member, assigned=keep, revoking=member.revoking | (member.assigned - keep))


def _arrived(member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions) -> ConsumerMember:
    """Return the member at the target epoch.

    The previous epoch changes only with the epoch, so a member can retry as often as a response is
    lost. (Kafka forgets the previous epoch at the second heartbeat of a member that waits.)
    """
    if (member.epoch, member.state, member.assigned, member.revoking) == (epoch, state, assigned, NOTHING):
        return member
    previous = member.epoch if member.epoch != epoch else member.previous_epoch
    return member.with_assignment(epoch, previous, state, assigned, NOTHING)
