"""What must hold of one classic group whenever it was touched: S1, S2, S4, and that something will end every wait (L4).

Asked after every request and timer, so each check looks only at what can have changed.
"""

from __future__ import annotations

from collections.abc import Container

from kohort.coordinator import GroupState, Timer
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.timers import InitialDelay, RebalanceTimeout, SyncTimeout
from kohort.model import TopicPartition
from kohort.sim.violation import Violation
from kohort.wire.codec import DecodeError
from kohort.wire.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.group_records import GroupMetadataValue, MemberMetadata

_IN_REBALANCE = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def check_group(group: ClassicGroup, timers: Container[Timer]) -> None:
    """The group contradicts neither itself nor its timers."""
    name, state, members = group.group_id, group.state, group.members
    rebalance = group.rebalance
    if members:
        if state is GroupState.EMPTY:
            raise Violation("S4", f"{name} is Empty with members")
        # A group that was a consumer group elects its first leader when its members have joined.
        elects = group.leader_id is None and state is GroupState.PREPARING_REBALANCE
        if group.leader_id not in members and not elects:
            raise Violation("S4", f"the leader of {name} is no member")
    else:
        if state not in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE):
            raise Violation("L4", f"{name} is {state} with no member")
    if not rebalance.joining.keys() <= members.keys():
        raise Violation("S15", f"a join is parked in {name} for who is no member")
    if not rebalance.syncing.keys() <= members.keys():
        raise Violation("S15", f"a sync is parked in {name} for who is no member")
    if group.pending.keys() & members.keys():
        raise Violation("S15", f"an id of {name} is both pending and a member's")
    if state is GroupState.PREPARING_REBALANCE:
        ends = InitialDelay(name) in timers or RebalanceTimeout(name) in timers
        if not ends:
            raise Violation("L4", f"nothing will end PreparingRebalance of {name}")
    elif state is GroupState.COMPLETING_REBALANCE:
        if SyncTimeout(name) not in timers:
            raise Violation("L4", f"nothing will end CompletingRebalance of {name}")
    elif group.stored is not None and group.generation != group.stored.generation:
        raise Violation("S10", f"{name} is at a generation that is not written")
    elif state is GroupState.STABLE and group.stored is not None:
        _is_as_written(group, group.stored)


def _is_as_written(group: ClassicGroup, stored: GroupMetadataValue) -> None:
    """A stable group has the members of its generation, each with its assignment: a load gives it no others."""
    mine = {one.member_id: (one.instance_id, bytes(one.assignment)) for one in group.members.values()}
    written = {one.member_id: (one.group_instance_id, bytes(one.assignment)) for one in stored.members}
    if mine != written or group.protocol != stored.protocol:
        raise Violation("S10", f"{group.group_id} is stable with {mine}, and its generation was written with {written}")


def check_generation(group_id: str, value: GroupMetadataValue, *, is_new: bool) -> None:
    """What is written of a generation gives no partition twice, and nobody what was not asked for.

    A generation is written again when a static member returns. It may ask for something else than before, and keeps
    what it had, as in Kafka.
    """
    owner: dict[TopicPartition, str] = {}
    claims = _claims(value.members)
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
                    f"{partition} is {other}'s and {member.member_id}'s in generation {value.generation} of {group_id}",
                )
            # Where nobody leads, members keep what they had until they have joined, whatever they ask for by now.
            if is_new and value.leader is not None and partition.topic not in topics:
                raise Violation("S2", f"{member.member_id} got {partition} in {group_id} and wants {topics}")
            # Without a leader it is what became of a consumer group: nobody joined for it, so its claims are old.
            if value.protocol == "cooperative-sticky" and value.leader is not None:
                holder = claims.get(partition, member.member_id)
                if holder != member.member_id:
                    raise Violation(
                        "S1",
                        f"{partition} goes to {member.member_id} in generation {value.generation} of {group_id}, "
                        f"while {holder} still has it",
                    )


def _claims(members: list[MemberMetadata]) -> dict[TopicPartition, str]:
    """Who says, in the newest generation that anybody names, that it has a partition; nobody where two say so."""
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
