"""The configs that a topic may have: Kafka's names, what they are told as, and the bounds of its records' times."""

import pytest

from kohort.broker import Broker
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.broker.peer import Peer

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
MOST = str(2**63 - 1)
DAY = 86_400_000

# As Apache Kafka 4.3.1 tells them of a topic that sets none.
KAFKAS = {
    "cleanup.policy": ("delete", LIST),
    "compression.gzip.level": ("-1", INT),
    "compression.lz4.level": ("9", INT),
    "compression.type": ("producer", STRING),
    "compression.zstd.level": ("3", INT),
    "delete.retention.ms": (str(DAY), LONG),
    "file.delete.delay.ms": ("60000", LONG),
    "flush.messages": (MOST, LONG),
    "flush.ms": (MOST, LONG),
    "follower.replication.throttled.replicas": ("", LIST),
    "index.interval.bytes": ("4096", INT),
    "leader.replication.throttled.replicas": ("", LIST),
    "local.retention.bytes": ("-2", LONG),
    "local.retention.ms": ("-2", LONG),
    "max.compaction.lag.ms": (MOST, LONG),
    "max.message.bytes": ("1048588", INT),
    "message.timestamp.after.max.ms": ("3600000", LONG),
    "message.timestamp.before.max.ms": (MOST, LONG),
    "message.timestamp.type": ("CreateTime", STRING),
    "min.cleanable.dirty.ratio": ("0.5", DOUBLE),
    "min.compaction.lag.ms": ("0", LONG),
    "min.insync.replicas": ("1", INT),
    "preallocate": ("false", BOOLEAN),
    "remote.log.copy.disable": ("false", BOOLEAN),
    "remote.log.delete.on.disable": ("false", BOOLEAN),
    "remote.storage.enable": ("false", BOOLEAN),
    "retention.bytes": ("-1", LONG),
    "retention.ms": (str(7 * DAY), LONG),
    "segment.bytes": ("1073741824", INT),
    "segment.index.bytes": ("10485760", INT),
    "segment.jitter.ms": ("0", LONG),
    "segment.ms": (str(7 * DAY), LONG),
    "unclean.leader.election.enable": ("false", BOOLEAN),
}


async def create(peer: Peer, **configs: str) -> int:
    """Create the topic `orders`; return the error code. Underscores replace dots."""
    wanted = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topics = [CreatableTopic(name="orders", num_partitions=1, replication_factor=1, configs=wanted)]
    answer = await peer.ask(CreateTopicsRequest(topics=topics), 6, CreateTopicsResponse)
    return answer.topics[0].error_code


async def described(peer: Peer) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(resource_type=2, resource_name="orders", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    answer = await peer.ask(request, 4, DescribeConfigsResponse)
    return {config.name: config for config in answer.results[0].configs}


async def test_a_topic_has_kafkas_configs_with_kafkas_defaults(peer: Peer) -> None:
    assert await create(peer) == ErrorCode.NONE
    told = await described(peer)
    assert {name: (config.value, config.config_type) for name, config in told.items()} == KAFKAS


@pytest.mark.parametrize("name", KAFKAS)
async def test_each_of_them_can_be_set(peer: Peer, name: str) -> None:
    value = KAFKAS[name][0]
    assert await create(peer, **{name.replace(".", "_"): value}) == ErrorCode.NONE
    told = (await described(peer))[name]
    assert (told.value, told.synonyms[0].name, told.synonyms[0].source) == (value, name, 1)


@pytest.mark.parametrize(
    "config", [{"remote_storage_enable": "true"}, {"flush_ms": "soon"}, {"preallocate": "1"}, {"flush_messages": "0"}]
)
async def test_impossible_configs_are_rejected_even_in_validate_only(peer: Peer, config: dict[str, str]) -> None:
    assert await create(peer, **config) == ErrorCode.INVALID_CONFIG


async def produced(peer: Peer, *times: Millis) -> int:
    """The code of one batch with records of these times."""
    records = [Record(at, time, None, b"x", ()) for at, time in enumerate(times)]
    data = PartitionProduceData(index=0, records=bytes(encode_batch(records)))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    answer = await peer.ask(request, 9, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


async def test_records_may_be_an_hour_ahead_and_as_old_as_they_like(peer: Peer, broker: Broker) -> None:
    await create(peer)
    now = broker.now()
    assert await produced(peer, 0, now + DAY // 48) == ErrorCode.NONE
    assert await produced(peer, now, now + DAY // 12) == ErrorCode.INVALID_TIMESTAMP


async def test_a_topic_limits_how_old_each_record_may_be(peer: Peer, broker: Broker) -> None:
    await create(peer, message_timestamp_before_max_ms=str(DAY))
    now = broker.now()
    assert await produced(peer, now - DAY // 2, now) == ErrorCode.NONE
    # Neither the first nor the last: what a batch's header says is not enough.
    assert await produced(peer, now, now - 2 * DAY, now) == ErrorCode.INVALID_TIMESTAMP
    assert await produced(peer, -1) == ErrorCode.NONE


async def test_a_topic_limits_how_far_ahead_records_may_be(peer: Peer, broker: Broker) -> None:
    await create(peer, message_timestamp_after_max_ms=str(DAY))
    now = broker.now()
    assert await produced(peer, now + DAY // 2) == ErrorCode.NONE
    assert await produced(peer, now + 2 * DAY) == ErrorCode.INVALID_TIMESTAMP


async def test_the_brokers_own_time_is_never_wrong(peer: Peer, broker: Broker) -> None:
    await create(peer, message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1000")
    assert await produced(peer, 0, broker.now() + DAY) == ErrorCode.NONE
