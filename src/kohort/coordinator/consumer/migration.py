"""Online migration between the classic and the consumer protocol (KIP-848).

A classic group becomes a consumer group when the first member that uses the consumer protocol
joins. Each classic member stays with its assignment and continues to use the classic protocol
(`classic_members`). The group becomes a classic group again when its last member that uses the
consumer protocol leaves.

Both conversions create the new group in memory immediately, because the current request continues
with it. Replaying the corresponding records then changes nothing. After a failover, the records
alone restore the group.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from kohort.coordinator.classic import (
    ClassicGroup,
    GroupState,
    Member,
    begin_and_proceed,
    expect_heartbeat,
    generation_record,
)
from kohort.coordinator.consumer import records
from kohort.coordinator.consumer.group import FIRST_EPOCH, ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ClassicProtocolState, ConsumerMember, Subscription
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.subscriptions import CONSUMER, read_subscription
from kohort.coordinator.timers import ExpressionRefresh, MemberRebalanceTimeout, SessionTimeout, TargetDue
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.errors import ErrorCode, KafkaError
from kohort.group_events import Cause, RebalanceReason
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import NEWEST_VERSION, Assignment, decode_assignment, encode_assignment
from kohort.wire.messages.consumer_protocol import Subscription as ConsumerSubscription

# From classic to consumer


def upgraded(groups: ConsumerGroups, classic: ClassicGroup) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group, which is not yet registered in `groups`.

    Raises KafkaError GROUP_ID_NOT_FOUND with the reason if the group cannot be converted.
    """
    if not groups.config.consumer_migration_policy.upgrades:
        raise _stays_classic(classic, "group.consumer.migration.policy forbids it")
    if classic.protocol_type != CONSUMER:
        raise _stays_classic(classic, f"its protocol type is {classic.protocol_type}, not {CONSUMER}")
    if len(classic.members) > groups.config.consumer_max_size:
        raise _stays_classic(classic, "it has more members than group.consumer.max.size")
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.target_epoch = max(classic.generation, FIRST_EPOCH)
    given: dict[str, Partitions] = {}
    taken: set[tuple[UUID, int]] = set()
    for member in classic.members.values():
        # If a custom assignor assigned a partition to two members, only the first one keeps it.
        given[member.member_id] = _first_taken(_assigned(groups, classic, member), taken)
    for member in classic.members.values():
        subscription = _subscription_of(classic, member)
        if subscription is None:
            raise _stays_classic(classic, f"the subscription of {member.member_id} cannot be read")
        owned = given[member.member_id]
        # A cooperative member keeps its reported partitions until it rejoins: it may not know yet
        # that it lost them.
        not_revoked = _first_taken(partitions_by_id(groups.metadata, subscription.owned_partitions), taken)
        group.put(_upgraded_member(classic, member, subscription, owned, not_revoked))
        group.targets[member.member_id] = owned
        group.give(
            member.member_id, ((topic_id, number, classic.generation) for topic_id, number in owned | not_revoked)
        )
    return group


def _first_taken(wanted: Iterable[tuple[UUID, int]], taken: set[tuple[UUID, int]]) -> Partitions:
    """Return the partitions in `wanted` that are not in `taken`, and add them to `taken`."""
    free = set(wanted) - taken
    taken |= free
    return Partitions.of((topic_id, [number]) for topic_id, number in free)


def _upgraded_member(
    classic: ClassicGroup,
    member: Member,
    subscription: ConsumerSubscription,
    owned: Partitions,
    not_revoked: Partitions,
) -> ConsumerMember:
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscription=Subscription(frozenset(subscription.topics)),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocolState(member.session_timeout_ms, tuple(member.protocols.items())),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        state=MemberState.UNREVOKED_PARTITIONS if not_revoked else MemberState.STABLE,
        assigned=owned,
        revoking=not_revoked,
    )


def _subscription_of(classic: ClassicGroup, member: Member) -> ConsumerSubscription | None:
    """Return the member's subscription for the group's assignor, or None if it cannot be read."""
    return read_subscription(member.protocols.get(classic.protocol or "", next(iter(member.protocols.values()))))


def _assigned(groups: ConsumerGroups, classic: ClassicGroup, member: Member) -> set[tuple[UUID, int]]:
    try:
        assignment = decode_assignment(member.assignment)
    except DecodeError:
        raise _stays_classic(classic, f"the assignment of {member.member_id} cannot be read") from None
    # When librdkafka leads, it returns each member's own user data to it, whatever the assignor.
    # Kafka rejects such groups.
    subscription = _subscription_of(classic, member)
    if assignment.user_data and (subscription is None or assignment.user_data != subscription.user_data):
        raise _stays_classic(classic, "its assignor sends user data to members, which would be lost")
    return set(partitions_by_id(groups.metadata, assignment.partitions))


def partitions_by_id(image: MetadataImage, partitions: Iterable[TopicPartition]) -> Iterable[tuple[UUID, int]]:
    """Yield the partitions that exist, by topic ID."""
    for name, number in partitions:
        topic = image.by_name.get(name)
        if topic is not None and 0 <= number < topic.shape.partitions:
            yield topic.topic_id, number


def _stays_classic(classic: ClassicGroup, reason: str) -> KafkaError:
    sentence = f"{classic.group_id} is a classic group with members and cannot become a consumer group: {reason}"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, sentence)


def write_upgraded(group: ConsumerGroup, now: Millis, out: Effects) -> None:
    """Write all records of a group that was just upgraded, and start its members' sessions."""
    group_id, members = group.group_id, group.members.values()
    out.records += [records.member_metadata(group_id, member) for member in members]
    out.records.append(records.group_epoch(group_id, group.epoch, 0))
    out.records += [records.target(group_id, member.member_id, member.assigned) for member in members]
    out.records.append(records.target_epoch(group_id, group.target_epoch, 0))
    for member in members:
        assert member.classic is not None
        out.records.append(records.current(group_id, member, _since(group)))
        member.session_deadline = now + member.classic.session_timeout_ms
        out.timers[SessionTimeout(group_id, member.member_id)] = member.next_check_at(now)
        if member.revoking:
            out.timers[MemberRebalanceTimeout(group_id, member.member_id)] = now + max(member.rebalance_timeout_ms, 0)


def _since(group: ConsumerGroup) -> Callable[[UUID, int], int]:
    def since(topic_id: UUID, partition: int) -> int:
        owner = group.owner(topic_id, partition)
        assert owner is not None
        return owner.since_epoch

    return since


# From consumer to classic


def stays_with_classic_members(
    groups: ConsumerGroups, group: ConsumerGroup, leaving: Collection[ConsumerMember]
) -> bool:
    """Return whether only classic members remain after these leave, and the group may be downgraded."""
    staying = len(group.members) - len(leaving)
    classic = group.classic_members - sum(member.classic is not None for member in leaving)
    allowed = groups.config.consumer_migration_policy.downgrades and staying <= groups.config.max_size
    return allowed and 0 < staying == classic


def _downgrade(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    staying: Sequence[ConsumerMember],
    why: RebalanceReason | None,
    now: Millis,
    out: Effects,
) -> ClassicGroup:
    """Convert the group to a classic group of these members, each with its current partitions.

    The group epoch becomes the generation. `why` is the reason for a rebalance if one is necessary.
    Until that rebalance ends, the group has no leader, which tells a broker that loads the group
    that it is necessary.
    """
    group_id = group.group_id
    out.records += records.no_group_and_members(group)
    out.timers[ExpressionRefresh(group_id)] = out.timers[TargetDue(group_id)] = None
    # Use the current assignment, not the target. A member that has not received its target still
    # has these partitions, and the group may be upgraded again before that member rejoins.
    assignment = {
        member.member_id: assignment_of(groups, member, member.assigned | member.revoking) for member in staying
    }
    classic = groups.make_classic(group_id)
    classic.generation, classic.protocol_type, classic.empty_since = group.epoch, CONSUMER, now
    classic.restore({member.member_id: _downgraded_member(member, assignment) for member in staying})
    classic.protocol, classic.leader_id = classic.vote(), staying[0].member_id if why is None else None
    classic.state = GroupState.STABLE
    out.records.append(generation_record(classic, assignment, now))
    for member in staying:
        out.timers[MemberRebalanceTimeout(group_id, member.member_id)] = None
        expect_heartbeat(groups, classic, classic.members[member.member_id], now, out)
    if why is not None:
        begin_and_proceed(groups, classic, why, now, out)
    return classic


def downgrade_without(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    leaving: Collection[ConsumerMember],
    why: RebalanceReason,
    now: Millis,
    out: Effects,
) -> None:
    """Downgrade the group after its last members that use the consumer protocol left.

    The remaining members form a classic group, and rebalance the partitions of those members.
    """
    gone = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    _downgrade(groups, group, staying, why, now, out)


def downgrade_for(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    holder: ConsumerMember,
    side: ClassicProtocolState,
    context: RequestContext,
    now: Millis,
    out: Effects,
) -> ClassicGroup:
    """Downgrade the group because its last member of the consumer protocol restarted with the classic one.

    `holder` is that member; it is static. The members need not rejoin if all of them have reached
    their targets, the holder before it restarted, and the restarted process has the same
    subscription. A classic group has no target, so partitions that a member still waits for would
    stay without an owner.
    """
    subscription = read_subscription(side.protocols[0][1])
    same = subscription is not None and holder.subscription == Subscription(frozenset(subscription.topics))
    others = [member for member in group.members.values() if member is not holder]
    settled = group.epoch == group.target_epoch and not group.moving
    settled = settled and all(member.is_at(group.epoch) for member in others)
    after = replace(holder, classic=side, client_id=context.client_id, client_host=context.client_host)
    staying = [after if m is holder else m for m in group.members.values()]
    why = None if same and settled else RebalanceReason(Cause.STATIC_MEMBER_RETURNED, holder.member_id)
    return _downgrade(groups, group, staying, why, now, out)


def _downgraded_member(member: ConsumerMember, assignment: dict[str, bytes]) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=dict(member.classic.protocols),
        assignment=assignment[member.member_id],
    )


def assignment_of(groups: ConsumerGroups, member: ConsumerMember, partitions: Partitions) -> bytes:
    """Encode partitions for a classic member: in the version of its own subscription, with topic names."""
    assert member.classic is not None
    version = int.from_bytes(member.classic.protocols[0][1][:2], "big")
    by_id = groups.metadata.by_id
    named = sorted(TopicPartition(by_id[topic_id].name, n) for topic_id, n in partitions if topic_id in by_id)
    return encode_assignment(Assignment(named), min(version, NEWEST_VERSION))
