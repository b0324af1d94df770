"""The requests of a classic member."""

from collections.abc import Collection

from kohort.member.classic.leading import VERSION
from kohort.member.config import MemberConfig
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
_LONGEST_REASON = 255  # KIP-800: a coordinator may reject longer ones


def join_request(
    config: MemberConfig,
    member_id: str,
    topics: Collection[str],
    *,
    owned: Collection[TopicPartition],
    last: Collection[TopicPartition] | None,
    generation: int,
    reason: str,
) -> JoinGroupRequest:
    """Return a JoinGroup.

    `owned` is what the member keeps processing, `last` its last assignment, received in `generation`.
    """
    protocols = []
    for assignor in config.assignors:
        subscription = Subscription(
            topics=sorted(topics),
            user_data=assignor.user_data(topics, last, generation),
            # KAFKA-12898: unsorted, equal subscriptions would differ in their bytes, and each join would rebalance.
            owned_partitions=sorted(owned),
            generation_id=generation,
            rack_id=config.rack_id,
        )
        metadata = encode_subscription(subscription, VERSION)
        protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=metadata))
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason[:_LONGEST_REASON],
    )


def sync_request(
    config: MemberConfig,
    member_id: str,
    generation: int,
    protocol_name: str,
    assignments: list[SyncGroupRequestAssignment],
) -> SyncGroupRequest:
    """Return a SyncGroup; `assignments` is empty for all members but the leader."""
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=assignments,
    )


def heartbeat_request(config: MemberConfig, member_id: str, generation: int) -> HeartbeatRequest:
    """Return a heartbeat."""
    return HeartbeatRequest(
        group_id=config.group_id, generation_id=generation, member_id=member_id, group_instance_id=config.instance_id
    )


def leave_request(config: MemberConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """Return a LeaveGroup in the form of KIP-345 (version 3 and later)."""
    identity = MemberIdentity(
        member_id=member_id, group_instance_id=config.instance_id, reason=reason[:_LONGEST_REASON]
    )
    return LeaveGroupRequest(group_id=config.group_id, members=[identity])
