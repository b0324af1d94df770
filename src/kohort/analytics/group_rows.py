"""Decoder from records about groups, which are few, to rows of the history.

Deletions become rows that are not alive. Records of types that do not concern ownership are
skipped.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

from kohort.analytics.schema import Kind
from kohort.wire.codec import DecodeError, Message
from kohort.wire.group_log import decode_key, decode_value
from kohort.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    TopicPartitions,
)

Row = dict[str, Any]

CHANGES_OWNERS = frozenset({GroupMetadataKey.KEY, ConsumerGroupCurrentMemberAssignmentKey.KEY})
"""Record types after which a partition may belong to another member: they end a run of commits."""


def group_rows(key: bytes, value: bytes | None) -> tuple[str | None, list[Row]]:
    """Return the group of a record (None if the type is unknown) and its rows. Raises DecodeError."""
    decoded = decode_key(key)
    if decoded is None:
        return None, []
    content = None if value is None else decode_value(decoded, value)
    group_id: str = getattr(decoded, "group" if hasattr(decoded, "group") else "group_id")
    read = _READERS.get(type(decoded))
    return group_id, [] if read is None else [{"group_id": group_id, **row} for row in read(decoded, content)]


def _generation(_key: Message, value: Message | None) -> Iterator[Row]:
    found = cast(GroupMetadataValue | None, value)
    if found is None:
        yield {"kind": Kind.GENERATION, "alive": False, "members": []}
        return
    consumers = found.protocol_type in ("consumer", "")
    members = [_classic_member(member, consumers) for member in found.members]
    yield {
        "kind": Kind.GENERATION,
        "alive": True,
        "epoch": found.generation,
        "protocol_type": found.protocol_type,
        "protocol": found.protocol,
        "leader_id": found.leader,
        "members": [
            {**member, "subscribed": member["subscribed"] or [], "assigned": member["assigned"] or []}
            for member in members
        ],
    }
    if any(None in (member["subscribed"], member["assigned"]) for member in members):
        yield {"kind": Kind.UNREADABLE}


def _classic_member(member: MemberMetadata, consumers: bool) -> Row:
    """Return a member's row; subscription or assignment is None if it is not in the format of the consumer protocol."""
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed": _topics(member.subscription) if consumers else [],
        "assigned": _partitions(member.assignment) if consumers else [],
    }


@lru_cache(maxsize=8192)
def _topics(subscription: bytes) -> list[str] | None:
    if not subscription:  # no assignor has been selected yet
        return []
    try:
        return sorted(decode_subscription(subscription).topics)
    except DecodeError:
        return None


@lru_cache(maxsize=8192)
def _partitions(assignment: bytes) -> list[str] | None:
    try:
        return [str(partition) for partition in decode_assignment(assignment).partitions]
    except DecodeError:
        return None


def _epoch(_key: Message, value: Message | None) -> Iterator[Row]:
    found = cast(ConsumerGroupMetadataValue | None, value)
    yield {"kind": Kind.EPOCH, "alive": found is not None, "epoch": None if found is None else found.epoch}


def _named_topics(_key: Message, value: Message | None) -> Iterator[Row]:
    found = cast(ConsumerGroupPartitionMetadataValue | None, value)
    for topic in found.topics if found is not None else ():
        yield {"kind": Kind.TOPIC, "topic": topic.topic_name, "topic_id": str(topic.topic_id)}


def _member(key: Message, value: Message | None) -> Iterator[Row]:
    member_id = cast(ConsumerGroupMemberMetadataKey, key).member_id
    found = cast(ConsumerGroupMemberMetadataValue | None, value)
    if found is None:
        yield {"kind": Kind.MEMBER, "alive": False, "member_id": member_id}
        return
    pattern = [found.subscribed_topic_regex] if found.subscribed_topic_regex else []
    yield {
        "kind": Kind.MEMBER,
        "alive": True,
        "member_id": member_id,
        "instance_id": found.instance_id,
        "client_id": found.client_id,
        "client_host": found.client_host,
        "protocol": found.server_assignor,
        "subscribed": sorted(found.subscribed_topic_names) + pattern,
    }


def _current(key: Message, value: Message | None) -> Iterator[Row]:
    member_id = cast(ConsumerGroupCurrentMemberAssignmentKey, key).member_id
    found = cast(ConsumerGroupCurrentMemberAssignmentValue | None, value)
    if found is None:
        yield {"kind": Kind.CURRENT, "alive": False, "member_id": member_id, "assigned": []}
        return
    # A member still processes the partitions that it has to revoke until it confirms the revocation.
    held = _by_id(found.assigned_partitions) + _by_id(found.partitions_pending_revocation)
    yield {
        "kind": Kind.CURRENT,
        "alive": True,
        "member_id": member_id,
        "epoch": found.member_epoch,
        "assigned": held,
    }


def _by_id(topics: list[TopicPartitions]) -> list[str]:
    return [f"{topic.topic_id}-{partition}" for topic in topics for partition in topic.partitions]


_READERS: Mapping[type[Message], Callable[[Message, Message | None], Iterator[Row]]] = {
    GroupMetadataKey: _generation,
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _named_topics,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
}
