"""When the journal of a gateway counts a partition as read that its owner gave up and got back (KIP-227)."""

import asyncio
from pathlib import Path

from kohort.gateway.journal import GatewayJournal
from kohort.model import TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

REBALANCES = HeartbeatResponse(error_code=27)


class EagerGroup:
    """Members of one eager group whose requests and answers a journal observes."""

    def __init__(self, path: Path) -> None:
        self.journal = GatewayJournal(path, None)
        self.path = path
        self.generation = 0

    def rebalance(self, shares: dict[str, list[int]]) -> None:
        """Let all members join and get their shares. The first one leads. A member's client ID is its member ID."""
        subscription = encode_subscription(Subscription(["t"]))
        joins = {
            member: JoinGroupRequest(
                group_id="g",
                member_id=member,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            )
            for member in shares
        }
        if self.generation:
            beat = HeartbeatRequest(group_id="g", member_id=next(iter(shares)), generation_id=self.generation)
            self.journal.answered(beat, REBALANCES, next(iter(shares)), "/host")
        for member, join in joins.items():
            self.journal.sent(join, member, "/host")
        self.generation += 1
        leader = next(iter(shares))
        for member, join in joins.items():
            joined = JoinGroupResponse(
                generation_id=self.generation,
                protocol_type="consumer",
                protocol_name="range",
                leader=leader,
                member_id=member,
                members=[JoinGroupResponseMember(member_id=each, metadata=subscription) for each in shares]
                if member == leader
                else [],
            )
            self.journal.answered(join, joined, member, "/host")
        encoded = {
            member: encode_assignment(Assignment([TopicPartition("t", number) for number in share]))
            for member, share in shares.items()
        }
        for member in shares:
            sync = SyncGroupRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=member,
                assignments=[
                    SyncGroupRequestAssignment(member_id=each, assignment=share) for each, share in encoded.items()
                ]
                if member == leader
                else [],
            )
            self.journal.answered(sync, SyncGroupResponse(assignment=encoded[member]), member, "/host")

    def fetch(self, member: str, *numbers: int, epoch: int) -> None:
        topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=number) for number in numbers])]
        request = FetchRequest(session_id=7, session_epoch=epoch, topics=topics if numbers else [])
        self.journal.fetched(request, member, "/host")

    def records(self) -> list[RebalanceRecord]:
        return [RebalanceRecord.from_json(line) for line in self.path.read_bytes().splitlines()]


def settled(path: Path) -> EagerGroup:
    """Return a group of two members that have read their partitions once."""
    group = EagerGroup(path)
    group.rebalance({"a": [0, 1], "b": [2, 3]})
    group.fetch("a", 0, 1, epoch=0)
    group.fetch("b", 2, 3, epoch=0)
    assert not group.journal.watching
    return group


async def test_a_partition_that_its_owner_gets_back_is_read_with_the_next_fetch_of_its_session(tmp_path: Path) -> None:
    group = settled(tmp_path / "journal")
    group.rebalance({"a": [0, 1], "b": [2, 3]})
    assert group.journal.watching
    group.fetch("a", epoch=1)  # names none: all are in the session
    group.fetch("b", epoch=1)
    assert not group.journal.watching
    assert all(change.dark_ms is not None for change in group.records()[-1].partitions)
    await asyncio.wait_for(group.journal.close(), 10)


async def test_a_partition_that_moved_is_read_when_its_new_owner_names_it(tmp_path: Path) -> None:
    group = settled(tmp_path / "journal")
    group.rebalance({"a": [0, 2], "b": [1, 3]})
    group.fetch("a", epoch=1)
    group.fetch("b", epoch=1)
    assert group.journal.watching, "0 and 3 are read, 1 and 2 are not"
    group.fetch("a", 2, epoch=2)
    group.fetch("b", 1, epoch=2)
    assert not group.journal.watching
    await asyncio.wait_for(group.journal.close(), 10)


async def test_a_fetch_of_another_member_does_not_count(tmp_path: Path) -> None:
    group = settled(tmp_path / "journal")
    group.rebalance({"a": [0, 1], "b": [2, 3]})
    group.fetch("b", epoch=1)
    assert group.journal.watching
    group.fetch("a", epoch=1)
    assert not group.journal.watching
    await asyncio.wait_for(group.journal.close(), 10)


async def test_a_full_fetch_counts_only_for_the_partitions_that_it_names(tmp_path: Path) -> None:
    group = settled(tmp_path / "journal")
    group.rebalance({"a": [0, 1], "b": [2, 3]})
    group.fetch("b", epoch=1)
    group.fetch("a", 0, epoch=0)
    assert group.journal.watching
    group.fetch("a", 1, epoch=-1)
    assert not group.journal.watching
    await asyncio.wait_for(group.journal.close(), 10)


async def test_a_rebalance_that_has_not_ended_is_written_when_the_gateway_stops(tmp_path: Path) -> None:
    group = EagerGroup(tmp_path / "journal")
    group.rebalance({"a": [0, 1], "b": [2, 3]})
    assert group.journal.watching
    assert not group.records()
    await group.journal.close()
    [record] = group.records()
    assert {change.partition for change in record.partitions} == {0, 1, 2, 3}
