"""Expected results of requests to a consumer group, by Kafka's rules and not by the coordinator's code.

Members that use the classic protocol send the requests of that protocol to it, too, while the group
migrates (KIP-848).
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.coordinator import GroupRecord
from kohort.coordinator.consumer import STATIC_LEAVE_EPOCH, ConsumerGroup, ConsumerMember
from kohort.model import UUID
from kohort.sim.checks.consumer_groups import GroupHistory, places_of
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.group_records import ConsumerGroupMetadataValue
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest
from kohort.wire.messages.sync_group import SyncGroupRequest


def is_stale_in_consumer_group(group: ConsumerGroup, request: Message) -> bool:
    """Return whether a request of the classic protocol is from a non-member, or of another generation (S5)."""
    match request:
        case HeartbeatRequest() | SyncGroupRequest():
            member = _sender(group, request.member_id, request.group_instance_id)
            return member is None or member.classic is None or member.epoch != request.generation_id
        case JoinGroupRequest():
            return _is_strange_join(group, request)
        case LeaveGroupRequest():
            if not request.members:  # before version 3
                return request.member_id not in group.members
            return all(_leaves(group, member.member_id, member.group_instance_id) is None for member in request.members)
        case _:
            return False


def _sender(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | None:
    """Return the member that sent a request, or None if it is not, or no longer, that member."""
    if instance_id is not None and group.static_ids.get(instance_id) != member_id:
        return None
    return group.members.get(member_id)


def _is_strange_join(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Return whether a join names a member id that the group does not have, or that lost its instance id."""
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id:
        return False
    if instance_id is not None:
        return group.static_ids.get(instance_id) != member_id
    return member_id not in group.members and member_id not in group.pending_ids


def _leaves(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember | None:
    """Return the member that leaves; an operator may name only the instance id."""
    if instance_id is not None and not member_id:
        return group.members.get(group.static_ids.get(instance_id, ""))
    return _sender(group, member_id, instance_id)


def fingerprint_of_consumer_group(group: ConsumerGroup) -> object:
    """Return the state of a group that no rejected request may change, with the sessions of its members."""
    return (
        group.epoch,
        group.target_epoch,
        {member_id: (id(member), member.session_deadline) for member_id, member in group.members.items()},
        dict(group.classic_deadlines),
        tuple(group.pending_ids),
    )


def must_refuse_heartbeat(group: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether Kafka's rule rejects a heartbeat that is no join: it must be from a member at its epoch.

    A member that lost the last response may send the previous epoch, if it owns only partitions of
    its assignment. A member that leaves need not know its epoch.
    """
    if request.member_epoch == 0:
        return False
    member = None if group is None else _sender(group, request.member_id, request.instance_id)
    if member is None:
        return True
    if request.member_epoch < 0 or request.member_epoch == member.epoch:
        return False
    if request.member_epoch > member.epoch or request.member_epoch != member.previous_epoch:
        return True
    if request.topic_partitions is None:
        return True
    owned = {(topic.topic_id, number) for topic in request.topic_partitions for number in topic.partitions}
    return not owned <= set(member.assigned)


def returns_unchanged(group: ConsumerGroup | None, request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a static member returns as announced, with an unchanged subscription (KIP-848)."""
    if group is None or request.member_epoch != 0 or request.instance_id is None:
        return False
    holder = group.static_member(request.instance_id)
    if holder is None or holder.epoch != STATIC_LEAVE_EPOCH:
        return False
    return (
        frozenset(request.subscribed_topic_names or ()) == holder.subscription.names
        and (request.subscribed_topic_regex or None) == holder.subscription.expression
        and request.server_assignor in (None, holder.server_assignor)
        and request.weight in (-1, holder.weight)
        and request.member_id not in group.members
    )


def epoch_of(record: GroupRecord) -> int:
    """Return the group epoch that the record writes, or 0."""
    return record.value.epoch if isinstance(record.value, ConsumerGroupMetadataValue) else 0


def must_refuse_commit(
    group: ConsumerGroup, past: GroupHistory, request: OffsetCommitRequest, ids: Mapping[str, UUID]
) -> bool:
    """Return whether Kafka's rule rejects a commit.

    The commit must be at the member's epoch, or at least at the epoch of each partition's
    assignment.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return False
    member = group.members.get(request.member_id)
    if member is None or epoch > member.epoch:
        return True
    if epoch == member.epoch:
        return False
    for topic in request.topics:
        for partition in topic.partitions:
            place = ids.get(topic.name, topic.topic_id), partition.partition_index
            holder = past.holders.get(place)
            had = holder is not None and holder.member_id == request.member_id
            if not had and place not in places_of(member):  # no history of a group just loaded
                return True
    return False
