"""Invariants of one classic group, checked after each change: S1, S2, S4, and that every wait ends (L4).

The checks run after every request and timer, so each one only examines what can have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from kohort.assignor import Claim, decode_claim
from kohort.coordinator import (
    GroupState,
    InitialRebalanceDelay,
    RebalanceTimeout,
    SyncTimeout,
    Timer,
    assigned_partitions,
)
from kohort.coordinator.classic import ClassicGroup
from kohort.model import TopicPartition
from kohort.sim.checks.balance import needlessly_taken
from kohort.sim.violation import Violation
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata

_IN_REBALANCE = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def check_group(group: ClassicGroup, timers: Container[Timer]) -> None:
    """Check that the group is consistent with itself and with its timers."""
    name, state, members = group.group_id, group.state, group.members
    rebalance = group.rebalance
    if members:
        if state is GroupState.EMPTY:
            raise Violation("S4", f"{name} is Empty with members")
        # A group that was a consumer group elects its first leader once its members have joined.
        elects = group.leader_id is None and state is GroupState.PREPARING_REBALANCE
        if group.leader_id not in members and not elects:
            raise Violation("S4", f"the leader of {name} is not a member")
    else:
        if state not in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE):
            raise Violation("L4", f"{name} is {state} with no member")
    if not rebalance.joining.keys() <= members.keys():
        raise Violation("S15", f"a join is parked in {name} for a member id that is not in the group")
    if not rebalance.syncing.keys() <= members.keys():
        raise Violation("S15", f"a sync is parked in {name} for a member id that is not in the group")
    if group.pending.keys() & members.keys():
        raise Violation("S15", f"a member id of {name} is both pending and in use")
    if state is GroupState.PREPARING_REBALANCE:
        ends = InitialRebalanceDelay(name) in timers or RebalanceTimeout(name) in timers
        if not ends:
            raise Violation("L4", f"{name} is in PreparingRebalance without a timer that ends it")
        if members and not (rebalance.initial or group.pending or members.keys() - rebalance.joining.keys()):
            raise Violation("L4", f"{name} waits for members to join although all have joined")
    elif state is GroupState.COMPLETING_REBALANCE:
        if SyncTimeout(name) not in timers:
            raise Violation("L4", f"{name} is in CompletingRebalance without a timer that ends it")
    elif group.stored is not None and group.generation != group.stored.generation:
        raise Violation("S10", f"the generation of {name} is not in the log")
    elif state is GroupState.STABLE and group.stored is not None:
        _is_as_written(group, group.stored)


def _is_as_written(group: ClassicGroup, stored: GroupMetadataValue) -> None:
    """Check that a stable group has the members and assignments of its stored generation.

    A load would restore exactly those.
    """
    mine = {member.member_id: (member.instance_id, bytes(member.assignment)) for member in group.members.values()}
    written = {member.member_id: (member.group_instance_id, bytes(member.assignment)) for member in stored.members}
    if mine != written or group.protocol != stored.protocol:
        raise Violation("S10", f"{group.group_id} is stable with {mine}, but the log has its generation with {written}")


def check_generation(
    group_id: str, value: GroupMetadataValue, *, is_new: bool, most: Callable[[str], int] | None = None
) -> None:
    """Check that a stored generation assigns no partition twice, and only partitions that members subscribe to.

    `most` returns the maximum partition count that a topic of that name has had; it is set if all
    members belong to the simulation. Then no partition is assigned that never existed.

    A generation is stored again when a static member returns. The member may have another
    subscription than before, and keeps its assignment, as in Kafka.
    """
    owner: dict[TopicPartition, str] = {}
    for member in value.members:
        if not member.assignment:
            continue
        try:
            partitions = decode_assignment(member.assignment).partitions
            topics = set(decode_subscription(member.subscription).topics)
        except DecodeError:
            continue  # not of the consumer protocol
        for partition in partitions:
            other = owner.setdefault(partition, member.member_id)
            if other != member.member_id:
                raise Violation(
                    "S1",
                    f"{partition} is assigned to {other} and {member.member_id}"
                    f" in generation {value.generation} of {group_id}",
                )
            # Without a leader, members keep their assignment until they have joined, whatever they now
            # subscribe to.
            if is_new and value.leader is not None and partition.topic not in topics:
                raise Violation(
                    "S2", f"{member.member_id} is assigned {partition} in {group_id}, but subscribes to {topics}"
                )
            if most is not None and not 0 <= partition.partition < most(partition.topic):
                raise Violation("S2", f"{member.member_id} is assigned {partition} in {group_id}, which never existed")


def check_claims(group_id: str, value: GroupMetadataValue) -> None:
    """Check that cooperative-sticky assigns no partition that another member still has (S1).

    The members must have joined this generation, with what they have.
    """
    if value.protocol != "cooperative-sticky":
        return
    claims = _claims(value.members)
    for member in value.members:
        for partition in sorted(assigned_partitions(value.protocol_type, member.assignment)):
            holder = claims.get(partition, member.member_id)
            if holder != member.member_id:
                raise Violation(
                    "S1",
                    f"{partition} goes to {member.member_id} in generation {value.generation} of {group_id}, "
                    f"while {holder} still has it",
                )


def check_takes_little(group_id: str, value: GroupMetadataValue) -> None:
    """Check that a sticky assignor takes as few partitions from members as an even share allows (S3).

    The leader, a member of the simulation, must have computed this generation.
    """
    if value.protocol not in ("sticky", "cooperative-sticky"):
        return
    claims: dict[str, Claim] = {}
    shares: dict[str, frozenset[TopicPartition]] = {}
    asked: set[frozenset[str]] = set()
    for member in value.members:
        try:
            subscription = decode_subscription(member.subscription)
            shares[member.member_id] = frozenset(decode_assignment(member.assignment).partitions)
        except DecodeError:
            return  # a member without an assignment, or not of the consumer protocol
        asked.add(frozenset(subscription.topics))
        if value.protocol == "sticky":
            claims[member.member_id] = decode_claim(subscription.user_data)
        else:
            claims[member.member_id] = Claim(subscription.owned_partitions, subscription.generation_id)
    if len(asked) == 1 and (taken := needlessly_taken(_held(claims), shares)):
        raise Violation("S3", f"in generation {value.generation} of {group_id} {taken}")


def _held(claims: Mapping[str, Claim]) -> dict[str, frozenset[TopicPartition]]:
    """Return the partitions of each member by the newest claims; disputed partitions belong to no member."""
    newest: dict[TopicPartition, tuple[int, list[str]]] = {}
    for member_id, claim in claims.items():
        for partition in claim.partitions:
            generation, names = newest.get(partition, (claim.generation, []))
            if claim.generation > generation:
                newest[partition] = claim.generation, [member_id]
            elif claim.generation == generation:
                newest[partition] = generation, [*names, member_id]
    return {
        member_id: frozenset(partition for partition in claim.partitions if newest[partition][1] == [member_id])
        for member_id, claim in claims.items()
    }


def _claims(members: list[MemberMetadata]) -> dict[TopicPartition, str]:
    """Return the owners of partitions by the claims of the newest generation; disputed partitions have none."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        try:
            subscription = decode_subscription(member.subscription)
        except DecodeError:
            continue
        generation = subscription.generation_id
        for partition in subscription.owned_partitions:
            known = claims.get(partition, (-2, None))
            if generation > known[0]:
                claims[partition] = generation, member.member_id
            elif generation == known[0]:
                claims[partition] = generation, None
    newest = max((generation for generation, _ in claims.values()), default=-1)
    return {tp: who for tp, (generation, who) in claims.items() if who is not None and generation == newest}
