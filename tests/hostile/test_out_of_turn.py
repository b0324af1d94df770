"""Clients that ask for too much, or before their turn, beside a group that must not notice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.hostile.error_inputs import codes
from tests.hostile.honest import honest_group
from tests.hostile.peer import Peer
from tests.interop.crowd import JOIN, SUBSCRIPTION, Crowd, Line, framed
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.process import until

MIB = 1 << 20
PARTITIONS = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[KohortBroker]:
    # The members of a group ask one after the other: the first must not be in its generation before the last has asked.
    with running_kohort(group_initial_rebalance_delay_ms="500", group_heartbeat_hold_ms="0") as running:
        with Peer(running.bootstrap) as peer:
            peer.create_topic("orders", PARTITIONS)
        yield running


@pytest.fixture
def line(broker: KohortBroker) -> Iterator[Line]:
    connected = Line(broker.bootstrap)
    yield connected
    connected.close()


@pytest.fixture
def group(broker: KohortBroker) -> Iterator[str]:
    """An honest group that beats while the test runs."""
    name = f"honest-{uuid.uuid4().hex[:8]}"
    with honest_group(broker, name):
        yield name


def join(group: str, member_id: str = "", metadata: bytes = SUBSCRIPTION) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def commit(group: str, member_id: str, generation: int, metadata: str = "") -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=66, committed_metadata=metadata)
        for index in range(PARTITIONS)
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)],
    )


def committed(line: Line, group: str) -> set[int]:
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=list(range(PARTITIONS)))]
    answer = line.ask(OffsetFetchRequest(group_id=group, topics=topics), 7, OffsetFetchResponse)
    return {row.committed_offset for topic in answer.topics for row in topic.partitions}


def test_everything_before_its_turn_is_refused(broker: KohortBroker, line: Line, group: str) -> None:
    stranger = "stranger-1"
    share = [SyncGroupRequestAssignment(member_id=stranger, assignment=b"all of it")]
    asked = [
        (
            SyncGroupRequest(group_id=group, generation_id=1, member_id=stranger, assignments=share),
            3,
            SyncGroupResponse,
        ),
        (HeartbeatRequest(group_id=group, generation_id=1, member_id=stranger), 3, HeartbeatResponse),
        (commit(group, stranger, 1), 8, OffsetCommitResponse),
        (commit(group, "", -1), 8, OffsetCommitResponse),
        (LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=stranger)]), 4, LeaveGroupResponse),
        (join(group, stranger), JOIN, JoinGroupResponse),
    ]
    for _ in range(200):
        line.send(b"".join(framed(request, version) for request, version, _ in asked))
    for _ in range(200):
        for _, version, kind in asked:
            assert codes(line.receive(kind, version)) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert committed(line, group) == {-1}


def test_a_member_of_one_group_commits_nothing_in_another(broker: KohortBroker, line: Line, group: str) -> None:
    with Crowd(broker.bootstrap, [f"{group}-other"], lines=1) as other:
        other.take_ids()
        other.sync(other.join())
        request = commit(group, other.ids[0], other.generations[0])
        for _ in range(200):
            assert codes(line.ask(request, 8, OffsetCommitResponse)) == {ErrorCode.UNKNOWN_MEMBER_ID}
        other.leave()
    assert committed(line, group) == {-1}


def test_metadata_without_measure_is_refused(broker: KohortBroker, line: Line, group: str) -> None:
    request = commit(f"{group}-other", "", -1, metadata="x" * 32_000)
    for _ in range(10):
        line.send(framed(request, 8))
    for _ in range(10):
        assert codes(line.receive(OffsetCommitResponse, 8)) == {ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert committed(line, f"{group}-other") == {-1}


def test_ten_thousand_joins_at_once_do_not_block_other_groups(broker: KohortBroker, group: str) -> None:
    crowd = f"{group}-crowd"
    lines = [Line(broker.bootstrap) for _ in range(10)]
    for line in lines:
        # Half of them are members at once, as in the versions before KIP-394, and wait for each other; the others take
        # an id.
        line.send(framed(join(crowd), 3) * 500 + framed(join(crowd), JOIN) * 500)
    until(60.0, "all members are in", lambda: members_of(broker, crowd) == 5_000)
    with Crowd(broker.bootstrap, [f"{group}-later"] * 3) as later:
        later.take_ids()
        later.sync(later.join())
        assert later.beat() == {ErrorCode.NONE}
        later.leave()
    for line in lines:
        line.close()


def members_of(broker: KohortBroker, group: str) -> int:
    line = Line(broker.bootstrap)
    answer = line.ask(DescribeGroupsRequest(groups=[group]), 5, DescribeGroupsResponse)
    line.close()
    return len(answer.groups[0].members)


def test_a_subscription_of_a_hundred_megabytes_is_refused_and_forgotten(
    broker: KohortBroker, line: Line, group: str
) -> None:
    before = broker.process.rss_bytes()
    # Kafka refuses it at SyncGroup, with the same code (tests/interop/test_large_subscriptions.py).
    for version in (3, JOIN):
        told = line.ask(join(f"{group}-large", metadata=bytes(100_000_000)), version, JoinGroupResponse)
        assert told.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.process.rss_bytes() - before < 60 * MIB
