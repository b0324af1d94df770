"""DescribeCluster, DescribeTopicPartitions and DescribeLogDirs: what there is, and where."""

from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.codec import NOT_ASKED
from kohort.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kohort.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

# Apache Kafka's response without authorization.
ALL_OF_A_CLUSTER, ALL_OF_A_TOPIC = 8_096, 3_576


@pytest.fixture(autouse=True)
def topics(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        for name, partitions in (("clicks", 5), ("orders", 4), ("z-last", 2)):
            request.getfixturevalue("broker").topics.create(name, partitions)


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
async def test_every_version_names_this_broker_and_the_cluster(peer: Peer, broker: Broker, version: int) -> None:
    answer = await peer.ask(DescribeClusterRequest(), version, DescribeClusterResponse)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, broker.cluster_id, broker.node_id)
    assert [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers] == [
        (broker.node_id, broker.host, broker.port)
    ]
    assert answer.cluster_authorized_operations == NOT_ASKED


async def test_authorized_operations_are_returned_on_request(peer: Peer) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True)
    answer = await peer.ask(request, 2, DescribeClusterResponse)
    assert answer.cluster_authorized_operations == ALL_OF_A_CLUSTER


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_the_address_is_not_a_controllers(peer: Peer, endpoint: int, code: ErrorCode) -> None:
    answer = await peer.ask(DescribeClusterRequest(endpoint_type=endpoint), 2, DescribeClusterResponse)
    assert (answer.error_code, bool(answer.error_message), answer.brokers) == (code, True, [])


# DescribeTopicPartitions

Page = tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]
"""Topics with their errors and partitions, and where the next page begins."""


async def page(peer: Peer, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Page:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = await peer.ask(request, 0, DescribeTopicPartitionsResponse)
    after = answer.next_cursor
    found = [
        (topic.name or "", topic.error_code, [partition.partition_index for partition in topic.partitions])
        for topic in answer.topics
    ]
    return found, None if after is None else (after.topic_name, after.partition_index)


async def test_a_topic_is_described_with_its_leaders_and_what_one_may_do(peer: Peer, broker: Broker) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    (topic,) = (await peer.ask(request, 0, DescribeTopicPartitionsResponse)).topics
    known = broker.topics.named("orders")
    assert known is not None
    assert (topic.topic_id, topic.is_internal, topic.topic_authorized_operations) == (
        known.topic_id,
        False,
        ALL_OF_A_TOPIC,
    )
    here = [broker.node_id]
    assert {(p.leader_id, p.leader_epoch) for p in topic.partitions} == {(broker.node_id, 0)}
    assert all(p.replica_nodes == p.isr_nodes == here and p.offline_replicas == [] for p in topic.partitions)


async def test_pages_return_every_partition_once(peer: Peer) -> None:
    told: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(100):
        found, cursor = await page(peer, limit=7, cursor=cursor)
        assert sum(len(partitions) for _, _, partitions in found) <= 7
        told += [(name, index) for name, _, partitions in found for index in partitions]
        if cursor is None:
            break
    counts = (("__consumer_offsets", 50), ("clicks", 5), ("orders", 4), ("z-last", 2))
    assert told == [(name, index) for name, count in counts for index in range(count)]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (4, ([("clicks", 0, [0, 1, 2, 3])], ("clicks", 4))),
        (5, ([("clicks", 0, [0, 1, 2, 3, 4])], ("orders", 0))),
        (6, ([("clicks", 0, [0, 1, 2, 3, 4]), ("orders", 0, [0])], ("orders", 1))),
        (9, ([("clicks", 0, [0, 1, 2, 3, 4]), ("orders", 0, [0, 1, 2, 3])], None)),
        (0, ([("clicks", 0, [0])], ("clicks", 1))),
        (-1, ([("clicks", 0, [0])], ("clicks", 1))),
    ],
)
async def test_a_page_has_at_most_the_requested_number_of_partitions(peer: Peer, limit: int, expected: Page) -> None:
    assert await page(peer, "orders", "clicks", limit=limit) == expected


async def test_a_cursor_may_name_what_is_gone(peer: Peer) -> None:
    assert await page(peer, cursor=("m", 3)) == ([("orders", 0, [0, 1, 2, 3]), ("z-last", 0, [0, 1])], None)
    assert await page(peer, cursor=("z-last", 77)) == ([("z-last", 0, [])], None)


async def test_unknown_topics_are_returned_among_the_known(peer: Peer) -> None:
    assert (await page(peer, "z-last", "nobody", "no good", "z-last"))[0] == [
        ("no good", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ("z-last", ErrorCode.NONE, [0, 1]),
    ]


@pytest.mark.parametrize("cursor", [("orders", -1), ("clicks", 0)])
async def test_a_cursor_that_makes_no_sense_is_refused(peer: Peer, cursor: tuple[str, int]) -> None:
    assert await page(peer, "orders", cursor=cursor) == ([("orders", ErrorCode.INVALID_REQUEST, [])], None)


# DescribeLogDirs


async def directory(peer: Peer, version: int, *topics: tuple[str, list[int]] | None) -> DescribeLogDirsResult:
    wanted = [DescribableLogDirTopic(topic=topic[0], partitions=topic[1]) for topic in topics if topic is not None]
    request = DescribeLogDirsRequest(topics=wanted if topics else None)
    (found,) = (await peer.ask(request, version, DescribeLogDirsResponse)).results
    return found


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_returns_the_size_of_every_log(peer: Peer, broker: Broker, version: int) -> None:
    found = await directory(peer, version)
    sizes = {topic.name: [p.partition_size for p in topic.partitions] for topic in found.topics}
    assert sizes == {"clicks": [0] * 5, "orders": [0] * 4, "z-last": [0] * 2, "__consumer_offsets": [0] * 50}
    assert (found.error_code, found.log_dir) == (ErrorCode.NONE, "memory")


async def test_unknown_partitions_are_omitted(peer: Peer) -> None:
    found = await directory(peer, 4, ("orders", [1, 0, 1, 99, -1]), ("nobody", [0]), ("clicks", [99]))
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in found.topics] == [
        ("orders", [0, 1])
    ]
    assert (await directory(peer, 4, None)).topics == []


async def test_a_directory_on_disk_has_a_name_and_space(start_broker: MakeBroker, tmp_path: Path) -> None:
    broker = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    async with talking_to(broker) as peer:
        found = await directory(peer, 4)
    assert found.log_dir == str(tmp_path / "data")
    assert found.total_bytes >= found.usable_bytes > 0


# ElectLeaders


async def elect(
    peer: Peer, version: int, *wanted: tuple[str, list[int]], kind: int = 0
) -> tuple[int, dict[str, list[int]]]:
    topics = [TopicPartitions(topic=name, partitions=partitions) for name, partitions in wanted]
    request = ElectLeadersRequest(topic_partitions=topics or None)
    if version >= 1:
        request.election_type = kind
    answer = await peer.ask(request, version, ElectLeadersResponse)
    found = {
        result.topic: [p.error_code for p in result.partition_result] for result in answer.replica_election_results
    }
    return answer.error_code, found


@pytest.mark.parametrize("version", range(3))
async def test_no_partition_ever_needs_an_election(peer: Peer, version: int) -> None:
    assert await elect(peer, version, ("orders", [0, 99]), ("nobody", [0])) == (
        ErrorCode.NONE,
        {
            "orders": [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            "nobody": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        },
    )
    error, everything = await elect(peer, version)
    assert (error, everything["orders"]) == (ErrorCode.NONE, []), "of all, those that need none are left out"


async def test_the_two_types_of_elections_are_supported(peer: Peer) -> None:
    assert (await elect(peer, 2, ("orders", [0]), kind=1))[1] == {"orders": [ErrorCode.ELECTION_NOT_NEEDED]}
    refused = await elect(peer, 2, ("orders", [0]), kind=2)
    assert refused == (ErrorCode.INVALID_REQUEST, {"orders": [ErrorCode.INVALID_REQUEST]})
