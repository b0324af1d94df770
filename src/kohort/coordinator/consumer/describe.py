"""ConsumerGroupDescribe: the epochs of a group, its members, and their current and target assignments."""

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import Partitions
from kohort.coordinator.consumer.target import chosen_assignor
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1
"""Values of MemberType: the protocol that a member uses (KIP-1099)."""


def describe_consumer_groups(
    groups: ConsumerGroups, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe the requested groups, in the order of the request."""
    return ConsumerGroupDescribeResponse(groups=[_describe(groups, group_id) for group_id in request.group_ids])


def _describe(groups: ConsumerGroups, group_id: str) -> DescribedGroup:
    group = groups.get(group_id)
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, error_message="A group's id is not empty.")
    if not isinstance(group, ConsumerGroup):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}.",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.computing.made_by or chosen_assignor(groups, group),
        members=[_member(groups, group, member) for member in group.members.values()],
        target_since_ms=group.target_at or -1,
    )


def _member(groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscription.names),
        subscribed_topic_regex=member.subscription.expression or "",
        # A member still holds the partitions that it must give up, so tools must not show them as
        # unassigned (KAFKA-20431).
        assignment=_assignment(groups, member.assigned | member.revoking),
        target_assignment=_assignment(groups, group.target_of(member.member_id)),
        since_ms=member.since or -1,
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
        reason=group.why(member.member_id),
    )


def _assignment(groups: ConsumerGroups, partitions: Partitions) -> Assignment:
    """Return the partitions with topic names, without topics that no longer exist."""
    topics = groups.metadata.by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.by_topic.items()
            if topic_id in topics
        ]
    )
