"""Classic groups that may become consumer groups (KIP-848)."""

from __future__ import annotations

import pytest

from kohort.coordinator import GroupConfig
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.topic_metadata import UNKNOWN
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.shell import Shell


def classic_group(said: bytes | None, told: bytes | None) -> Shell:
    """A group of one, whose member says this to its assignor and is told that, beside its partitions."""
    shell = Shell(GroupConfig(initial_rebalance_delay_ms=0))
    shell.set_topics({"t": 2})
    answers: dict[object, Message] = {}
    words = encode_subscription(Subscription(topics=["t"], user_data=said), 1)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=words)],
    )
    answers |= shell.handle(join, "join", 3).replies
    for effects in shell.wait(0):
        answers |= effects.replies
    joined = answers["join"]
    assert isinstance(joined, JoinGroupResponse) and not joined.error_code
    everything = Assignment([TopicPartition("t", 0), TopicPartition("t", 1)], user_data=told)
    mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=encode_assignment(everything, 1))
    sync = SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[mine]
    )
    shell.handle(sync, "sync", 1)
    return shell


def newcomer_request() -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="new",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def newcomer(shell: Shell) -> ConsumerGroupHeartbeatResponse:
    answer = shell.handle(newcomer_request(), "new", 1).replies["new"]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


@pytest.mark.parametrize(("said", "told"), [(None, None), (b"", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0\0\1")])
def test_user_data_that_a_leader_only_returns_is_not_a_loss(said: bytes | None, told: bytes | None) -> None:
    # librdkafka does so with any assignor: Kafka never migrates a group that it leads by cooperative-sticky.
    shell = classic_group(said, told)
    assert newcomer(shell).error_code == ErrorCode.NONE
    assert len(shell.shard.consumer_groups["g"].members) == 2


def test_a_group_whose_assignor_sends_user_data_stays_classic() -> None:
    shell = classic_group(b"\0\0\0\1", b"you are the standby of 7")
    answer = newcomer(shell)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "sends user data to members" in str(answer.error_message)
    assert "g" in shell.shard.groups


def test_a_group_does_not_become_classic_before_the_coordinator_knows_the_topics() -> None:
    # It does not know the topics' names for the members' assignments: all members would lose their partitions.
    shell = Shell(GroupConfig())
    shell.set_topics({"t": 2})
    static = newcomer_request()
    static.instance_id = "i"
    answer = shell.handle(static, "new", 1).replies["new"]
    assert isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.assignment is not None
    known, shell.image = shell.image, UNKNOWN
    shell.fail_over()
    words = encode_subscription(Subscription(topics=["t"]), 1)
    join = JoinGroupRequest(
        group_id="g",
        group_instance_id="i",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=words)],
    )
    refused = shell.handle(join, "join", 5).replies["join"]
    assert isinstance(refused, JoinGroupResponse)
    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shell.change_topics(known.by_name.values())
    joined = shell.handle(join, "again", 5).replies["again"]
    assert isinstance(joined, JoinGroupResponse) and not joined.error_code
    group = shell.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    given = decode_assignment(group.members[joined.member_id].assignment)
    assert given.partitions == [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_a_classic_member_is_in_the_rack_that_it_named_last() -> None:
    shell = Shell(GroupConfig())
    shell.set_topics({"t": 2})
    newcomer(shell)
    for rack, expected in (("r1", "r1"), (None, "r1"), ("r2", "r2")):
        words = encode_subscription(Subscription(topics=["t"], rack_id=rack), 3)
        join = JoinGroupRequest(
            group_id="g",
            group_instance_id="i",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=words)],
        )
        shell.handle(join, "join", 5)
        described = shell.handle(ConsumerGroupDescribeRequest(group_ids=["g"]), "describe", 1).replies["describe"]
        assert isinstance(described, ConsumerGroupDescribeResponse)
        assert [member.rack_id for member in described.groups[0].members if member.instance_id == "i"] == [expected]


def test_a_member_is_described_with_the_protocol_that_it_uses() -> None:
    shell = classic_group(None, None)
    newcomer(shell)
    described = shell.handle(ConsumerGroupDescribeRequest(group_ids=["g"]), "describe", 1).replies["describe"]
    assert isinstance(described, ConsumerGroupDescribeResponse)
    kinds = {member.member_id == "new": member.member_type for member in described.groups[0].members}
    assert kinds == {True: 1, False: 0}


def test_a_group_whose_assignment_cannot_be_read_stays_classic() -> None:
    shell = classic_group(None, None)
    [member] = shell.shard.groups["g"].members.values()
    member.assignment = b"?"
    answer = newcomer(shell)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert f"the assignment of {member.member_id} cannot be read" in str(answer.error_message)
