"""A story's generations as records of `__consumer_offsets`, as a coordinator would have written them."""

from collections.abc import Iterator

from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.group_log.group_bytes import encode_key, encode_value
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    TopicPartitions,
)
from tests.analytics.generate.story import Generation, Protocol, Story

Pair = tuple[bytes, bytes | None]

CURRENT_STATE_STABLE = 0


def records_of(story: Story, generation: Generation) -> list[Pair]:
    """Keys and values, in the order in which a coordinator appends them."""
    made = _consumer(story, generation) if story.protocol is Protocol.CONSUMER else [_classic(story, generation)]
    return [(encode_key(key), None if value is None else encode_value(value)) for key, value in made]


def commit_key(story: Story, partition: int) -> bytes:
    """The key of what the group commits for a partition of its topic."""
    return encode_key(OffsetCommitKey(group=story.group_id, topic=story.topic, partition=partition))


def _classic(story: Story, generation: Generation) -> tuple[Message, Message]:
    subscription = encode_subscription(Subscription(topics=[story.topic]))
    members = [
        MemberMetadata(
            member_id=member,
            group_instance_id=None,
            client_id=person.client_id,
            client_host=person.host,
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=subscription,
            assignment=encode_assignment(
                Assignment([TopicPartition(story.topic, n) for n in generation.assignment[member]])
            ),
        )
        for member, person in generation.members.items()
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation.epoch,
        protocol=story.protocol.value,
        leader=next(iter(generation.members), None),
        current_state_timestamp=generation.at,
        members=members,
    )
    return GroupMetadataKey(group=story.group_id), value


def _consumer(story: Story, generation: Generation) -> Iterator[tuple[Message, Message | None]]:
    group_id = story.group_id
    for member in generation.went:
        yield ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member), None
        yield ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member), None
    for member in generation.came:
        person = generation.members[member]
        yield (
            ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member),
            ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id=person.client_id,
                client_host=person.host,
                subscribed_topic_names=[story.topic],
                subscribed_topic_regex=None,
                rebalance_timeout_ms=300_000,
                server_assignor=None,
            ),
        )
    if generation.cause:
        yield ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=generation.epoch)
    for member, partitions in generation.assignment.items():
        held = [TopicPartitions(topic_id=story.topic_id, partitions=list(partitions))] if partitions else []
        yield (
            ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member),
            ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=generation.epoch,
                previous_member_epoch=generation.epoch - 1,
                state=CURRENT_STATE_STABLE,
                assigned_partitions=held,
                partitions_pending_revocation=[],
            ),
        )
