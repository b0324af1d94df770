"""DeleteGroups, OffsetDelete, and what a deleted topic takes with it."""

from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to, until

OK = ErrorCode.NONE
Offsets = dict[str, dict[int, int]]


@pytest.fixture(autouse=True)
def topics(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        make_topics(request.getfixturevalue("broker"))


def make_topics(broker: Broker) -> None:
    broker.topics.create("orders", 2)
    broker.topics.create("clicks", 2)


async def commit(peer: Peer, group: str, *topics: str) -> None:
    """Commit without a member: offset 5 in partitions 0 and 1."""
    rows = [OffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in (0, 1)]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name in topics],
    )
    answer = await peer.ask(request, 8, OffsetCommitResponse)
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {OK}


async def committed(peer: Peer, group: str) -> Offsets:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (found,) = (await peer.ask(request, 8, OffsetFetchResponse)).groups
    return {
        topic.name: {row.partition_index: row.committed_offset for row in topic.partitions} for topic in found.topics
    }


async def join(peer: Peer, group: str, *topics: str, protocol_type: str = "consumer") -> None:
    metadata = encode_subscription(Subscription(topics=list(topics)), 1)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    assert (await peer.ask(request, 3, JoinGroupResponse)).error_code == OK


async def delete(peer: Peer, *groups: str, version: int = 2) -> list[tuple[str, int]]:
    answer = await peer.ask(DeleteGroupsRequest(groups_names=list(groups)), version, DeleteGroupsResponse)
    return [(result.group_id, result.error_code) for result in answer.results]


async def forget(peer: Peer, group: str, **topics: list[int]) -> tuple[int, dict[str, list[int]]]:
    wanted = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in topics.items()
    ]
    answer = await peer.ask(OffsetDeleteRequest(group_id=group, topics=wanted), 0, OffsetDeleteResponse)
    return answer.error_code, {topic.name: [row.error_code for row in topic.partitions] for topic in answer.topics}


# DeleteGroups


@pytest.mark.parametrize("version", range(3))
async def test_every_version_deletes_groups_each_by_its_own_shard(peer: Peer, version: int) -> None:
    names = [f"g{number}" for number in range(5)]
    for name in names:
        await commit(peer, name, "orders")
    assert await delete(peer, *names, version=version) == [(name, OK) for name in names]
    assert (await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)).groups == []
    assert await committed(peer, "g0") == {}


async def test_a_rejected_deletion_has_a_reason_and_does_not_affect_others(peer: Peer) -> None:
    await commit(peer, "empty", "orders")
    await join(peer, "busy", "orders")
    assert await delete(peer, "busy", "nobody", "empty", "nobody", "") == [
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("empty", OK),
        ("", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert await delete(peer) == []


async def test_a_deleted_group_stays_deleted_after_a_restart(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=QUICK)
    first = await start_broker(options)
    make_topics(first)
    async with talking_to(first) as peer:
        await commit(peer, "g", "orders")
        await commit(peer, "other", "orders")
        assert await delete(peer, "g") == [("g", OK)]
    await first.stop()
    again = await start_broker(options)
    await until(lambda: all(shard.ready for shard in again.groups))
    async with talking_to(again) as peer:
        assert await committed(peer, "g") == {}
        assert await committed(peer, "other") == {"orders": {0: 5, 1: 5}}


# OffsetDelete


async def test_offsets_are_forgotten_one_by_one(peer: Peer) -> None:
    await commit(peer, "g", "orders", "clicks")
    assert await forget(peer, "g", orders=[1], clicks=[0, 1]) == (OK, {"orders": [OK], "clicks": [OK, OK]})
    assert await committed(peer, "g") == {"orders": {0: 5}}


async def test_offsets_of_a_topic_that_a_member_wants_stay(peer: Peer) -> None:
    await commit(peer, "g", "orders", "clicks")
    await join(peer, "g", "orders")
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert await forget(peer, "g", orders=[0], clicks=[0, 1]) == (OK, {"orders": [code], "clicks": [OK, OK]})
    assert await committed(peer, "g") == {"orders": {0: 5, 1: 5}}


async def test_offsets_of_missing_partitions_are_rejected_and_the_others_deleted(peer: Peer) -> None:
    await commit(peer, "g", "orders")
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await forget(peer, "g", orders=[0, 9], nobody=[0]) == (OK, {"orders": [OK, code], "nobody": [code]})
    assert await forget(peer, "g", nobody=[0]) == (OK, {"nobody": [code]})


async def test_an_error_of_the_group_has_no_partition_results(peer: Peer) -> None:
    assert await forget(peer, "missing", orders=[0], nobody=[0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert await forget(peer, "missing", nobody=[0]) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert await forget(peer, "missing") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert await forget(peer, "", orders=[0]) == (ErrorCode.INVALID_GROUP_ID, {})
    await join(peer, "connect", protocol_type="connect")
    assert await forget(peer, "connect", orders=[0]) == (ErrorCode.NON_EMPTY_GROUP, {})


# A topic is deleted


async def test_deleting_a_topic_deletes_its_committed_offsets(start_broker: MakeBroker, tmp_path: Path) -> None:
    # KAFKA-19154: who makes the topic anew would else be told to begin at the old one's offset.
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=QUICK)
    first = await start_broker(options)
    make_topics(first)
    async with talking_to(first) as peer:
        await commit(peer, "both", "orders", "clicks")
        await commit(peer, "one", "orders")
        await join(peer, "busy", "orders")
        gone = await peer.ask(DeleteTopicsRequest(topic_names=["orders"]), 5, DeleteTopicsResponse)
        assert gone.responses[0].error_code == OK
        assert [await committed(peer, group) for group in ("both", "one")] == [{"clicks": {0: 5, 1: 5}}, {}]
        first.topics.create("orders", 2)
        assert await committed(peer, "one") == {}
        groups = (await peer.ask(ListGroupsRequest(), 4, ListGroupsResponse)).groups
        assert {group.group_id for group in groups} == {"both", "busy"}, "who has nothing left is forgotten"
    await first.stop()
    again = await start_broker(options)
    await until(lambda: all(shard.ready for shard in again.groups))
    async with talking_to(again) as peer:
        assert [await committed(peer, group) for group in ("both", "one")] == [{"clicks": {0: 5, 1: 5}}, {}]


async def test_a_shard_that_loads_while_a_topic_is_deleted_forgets_it_then(
    start_broker: MakeBroker, tmp_path: Path
) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings=QUICK)
    first = await start_broker(options)
    make_topics(first)
    async with talking_to(first) as peer:
        await commit(peer, "g", "orders", "clicks")
    await first.stop()
    again = await start_broker(options)
    shard, topic = again.groups.shard("g"), again.topics.named("orders")
    assert not shard.ready, "it loads in a task of its own, which has not run yet"
    assert topic is not None
    again.delete_topic(topic)
    await until(lambda: shard.ready)
    async with talking_to(again) as peer:
        assert await committed(peer, "g") == {"clicks": {0: 5, 1: 5}}
