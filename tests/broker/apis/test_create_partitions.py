"""CreatePartitions, as an admin sees it."""

from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to


@pytest.fixture(autouse=True)
def orders(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").topics.create("orders", 2)


def wish(name: str, count: int, *holders: list[int]) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in holders]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)


async def grow(
    peer: Peer, *topics: CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return (await peer.ask(request, version, CreatePartitionsResponse)).results


def partitions(broker: Broker, name: str = "orders") -> int:
    topic = broker.topics.named(name)
    assert topic is not None
    return topic.partitions


@pytest.mark.parametrize("version", range(4))
async def test_every_version_adds_partitions_that_can_be_written(peer: Peer, broker: Broker, version: int) -> None:
    (result,) = await grow(peer, wish("orders", 5), version=version)
    assert (result.name, result.error_code, result.error_message) == ("orders", ErrorCode.NONE, None)
    assert partitions(broker) == 5
    assert broker.partition("orders", 4) is not None
    assert broker.partition("orders", 5) is None


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (wish("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (wish("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (wish("orders", -1), ErrorCode.INVALID_PARTITIONS),
        (wish("orders", 2_000_000_000), ErrorCode.INVALID_PARTITIONS),
        (wish("nobody", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wish("", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (wish("orders", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wish("orders", 3, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wish("orders", 3, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (wish("__consumer_offsets", 99), ErrorCode.INVALID_REQUEST),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else f"{value.name}-{value.count}",
)
async def test_an_impossible_change_is_rejected_with_a_reason_and_does_not_affect_others(
    peer: Peer, broker: Broker, wanted: CreatePartitionsTopic, code: ErrorCode
) -> None:
    broker.topics.create("clicks", 1)
    refused, done = await grow(peer, wanted, wish("clicks", 2))
    assert (refused.error_code, bool(refused.error_message)) == (code, True)
    assert done.error_code == ErrorCode.NONE
    assert (partitions(broker), partitions(broker, "clicks")) == (2, 2)


async def test_a_topic_named_twice_is_refused_once_and_does_not_grow(peer: Peer, broker: Broker) -> None:
    (refused,) = await grow(peer, wish("orders", 4), wish("orders", 5))
    assert (refused.name, refused.error_code) == ("orders", ErrorCode.INVALID_REQUEST)
    assert partitions(broker) == 2


async def test_assignments_to_this_broker_are_taken(peer: Peer, broker: Broker) -> None:
    (result,) = await grow(peer, wish("orders", 4, [broker.node_id], [broker.node_id]))
    assert (result.error_code, partitions(broker)) == (ErrorCode.NONE, 4)


async def test_validating_adds_nothing(peer: Peer, broker: Broker) -> None:
    right, wrong = await grow(peer, wish("orders", 5), wish("nobody", 5), validate_only=True)
    assert (right.error_code, wrong.error_code) == (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert partitions(broker) == 2


async def test_added_partitions_survive_a_restart(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    first.topics.create("orders", 2)
    async with talking_to(first) as peer:
        (result,) = await grow(peer, wish("orders", 3))
    assert result.error_code == ErrorCode.NONE
    await first.stop()
    assert partitions(await start_broker(options)) == 3
