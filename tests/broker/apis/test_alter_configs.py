"""IncrementalAlterConfigs and AlterConfigs: what they change, what they refuse, what lasts."""

import re
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.config.broker_settings import RACK_AWARE
from kohort.broker.config.entries import Source
from kohort.errors import ErrorCode
from kohort.wire.batches import Record, decode_records, encode_batch
from kohort.wire.messages import alter_configs as legacy
from kohort.wire.messages import describe_configs as describe
from kohort.wire.messages import incremental_alter_configs as incremental
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
THEN = 1_600_000_000_000

Change = tuple[str, int, str | None]
Resource = incremental.AlterConfigsResource


def resource(kind: int, name: str, *changes: Change) -> Resource:
    configs = [incremental.AlterableConfig(name=key, config_operation=op, value=text) for key, op, text in changes]
    return Resource(resource_type=kind, resource_name=name, configs=configs)


async def alter(peer: Peer, *resources: Resource, version: int = 1, validate_only: bool = False) -> list[int]:
    request = incremental.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    responses = (await peer.ask(request, version, incremental.IncrementalAlterConfigsResponse)).responses
    named = [(resource.resource_type, resource.resource_name) for resource in resources]
    assert [(response.resource_type, response.resource_name) for response in responses] == named
    assert all(bool(response.error_message) == (response.error_code != ErrorCode.NONE) for response in responses)
    return [response.error_code for response in responses]


async def replace(peer: Peer, kind: int, name: str, version: int = 2, **configs: str | None) -> int:
    entries = [legacy.AlterableConfig(name=key.replace("_", "."), value=text) for key, text in configs.items()]
    wanted = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    (response,) = (
        await peer.ask(legacy.AlterConfigsRequest(resources=[wanted]), version, legacy.AlterConfigsResponse)
    ).responses
    return response.error_code


def configs(broker: Broker, name: str = "orders") -> dict[str, str]:
    topic = broker.topics.named(name)
    assert topic is not None
    return dict(topic.configs)


@pytest.fixture(autouse=True)
def orders(request: pytest.FixtureRequest) -> None:
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").topics.create("orders", 1, {"segment.bytes": "2048"})


@pytest.mark.parametrize("version", [0, 1])
async def test_single_configs_are_set_and_deleted_and_the_rest_stays(peer: Peer, broker: Broker, version: int) -> None:
    changes = resource(TOPIC, "orders", ("retention.ms", SET, "60000"), ("segment.ms", DELETE, None))
    assert await alter(peer, changes, version=version) == [ErrorCode.NONE]
    assert configs(broker) == {"segment.bytes": "2048", "retention.ms": "60000"}
    assert await alter(peer, resource(TOPIC, "orders", ("segment.bytes", DELETE, None))) == [ErrorCode.NONE]
    assert configs(broker) == {"retention.ms": "60000"}


async def test_parts_are_added_to_a_list_and_taken_from_it(peer: Peer, broker: Broker) -> None:
    # The list starts with the value that the topic inherits from its broker (KIP-339).
    for operation, part, after in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "compact", "delete"),
        (SUBTRACT, "delete", ""),
        (SUBTRACT, "delete", ""),
        (APPEND, "compact", "compact"),
        (SET, "", ""),
    ]:
        assert await alter(peer, resource(TOPIC, "orders", ("cleanup.policy", operation, part))) == [0]
        assert configs(broker)["cleanup.policy"] == after


async def test_parts_are_added_to_the_list_of_a_group_and_taken_from_it(peer: Peer, broker: Broker) -> None:
    name = "consumer.member.weights"
    for operation, part, after in [
        (SUBTRACT, "app-1=5", ""),
        (APPEND, "app-1=5", "app-1=5"),
        (APPEND, "app-2=7", "app-1=5,app-2=7"),
        (SUBTRACT, "app-1=5", "app-2=7"),
    ]:
        assert await alter(peer, resource(GROUP, "g", (name, operation, part))) == [ErrorCode.NONE]
        assert broker.group_configs.of("g")[name] == after


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_older_request_replaces_everything(peer: Peer, broker: Broker, version: int) -> None:
    assert await replace(peer, TOPIC, "orders", version, retention_ms="60000") == ErrorCode.NONE
    assert configs(broker) == {"retention.ms": "60000"}
    assert await replace(peer, TOPIC, "orders", version, retention_ms=None) == ErrorCode.INVALID_REQUEST
    assert await replace(peer, TOPIC, "orders", version) == ErrorCode.NONE
    assert configs(broker) == {}


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (resource(TOPIC, "orders", ("retention.ms", SET, "soon")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention.ms", SET, "-2")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("segment.bytes", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("cleanup.policy", SET, "shred")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("cleanup.policy", APPEND, "shred")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("cleanup.policy", SET, ",")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("cleanup.policy", SET, "delete,")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("message.timestamp.type", SET, "Never")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("compression.type", SET, "rar")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention", SUBTRACT, "1")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "orders", ("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "orders", ("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (
            resource(TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            ErrorCode.INVALID_REQUEST,
        ),
        (resource(TOPIC, "nobody", ("retention.ms", SET, "1")), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, "no spaces", ("retention.ms", SET, "1")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(TOPIC, "", ("retention.ms", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(TOPIC, "__consumer_offsets", ("cleanup.policy", SET, "delete")), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "__consumer_offsets", ("cleanup.policy", DELETE, None)), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "1", ("num.partitions", SET, "3")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("message.max.bytes", SET, "many")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("nonsense", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", ("message.max.bytes", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (resource(BROKER, "77", ("message.max.bytes", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "one", ("message.max.bytes", SET, "1")), ErrorCode.INVALID_REQUEST),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "44999")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "60001")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "long")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout", SET, "50000")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "g", ("consumer.session.timeout.ms", APPEND, "50000")), ErrorCode.INVALID_CONFIG),
        (resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), ErrorCode.INVALID_REQUEST),
        (resource(LOGGER, "1", ("kohort.broker", SET, "DEBUG")), ErrorCode.INVALID_REQUEST),
        (resource(METRICS, "m", ("interval.ms", SET, "1000")), ErrorCode.INVALID_REQUEST),
        (resource(99, "x", ("y", SET, "1")), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_rejected_change_changes_nothing_and_does_not_affect_other_resources(
    peer: Peer, broker: Broker, wanted: Resource, code: ErrorCode
) -> None:
    broker.topics.create("clicks", 1)
    wanted.configs.append(incremental.AlterableConfig(name="delete.retention.ms", config_operation=SET, value="1"))
    neighbour = resource(TOPIC, "clicks", ("segment.ms", SET, "70000"))
    assert await alter(peer, wanted, neighbour) == [code, ErrorCode.NONE]
    assert configs(broker) == {"segment.bytes": "2048"}
    assert configs(broker, "clicks") == {"segment.ms": "70000"}
    assert configs(broker, "__consumer_offsets")["cleanup.policy"] == "compact"
    assert not broker.dynamic_config.changed(Source.BROKER)


async def test_a_resource_named_twice_is_changed_by_neither(peer: Peer, broker: Broker) -> None:
    one, other = resource(TOPIC, "orders", ("segment.ms", SET, "1")), resource(TOPIC, "orders")
    assert await alter(peer, one, other) == [ErrorCode.INVALID_REQUEST] * 2
    assert configs(broker) == {"segment.bytes": "2048"}


async def test_validating_changes_nothing(peer: Peer, broker: Broker) -> None:
    topic = resource(TOPIC, "orders", ("retention.ms", SET, "1"))
    me = resource(BROKER, "1", ("message.max.bytes", SET, "1"))
    bad = resource(BROKER, "", ("message.max.bytes", SET, "-1"))
    assert await alter(peer, topic, me, bad, validate_only=True) == [0, 0, ErrorCode.INVALID_REQUEST]
    assert configs(broker) == {"segment.bytes": "2048"}
    assert broker.config.number("message.max.bytes") == 1_048_588


async def test_configs_of_topics_outlive_a_restart(start_broker: MakeBroker, tmp_path: Path) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data")
    first = await start_broker(options)
    first.topics.create("orders", 1)
    async with talking_to(first) as peer:
        assert await alter(peer, resource(TOPIC, "orders", ("retention.ms", SET, "60000"))) == [ErrorCode.NONE]
    await first.stop()
    assert configs(await start_broker(options)) == {"retention.ms": "60000"}


# Effects of the settings


async def store(peer: Peer, value: bytes) -> PartitionProduceResponse:
    records = encode_batch([Record(0, THEN, None, value, ())])
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])
    answer = await peer.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0]


async def timestamps(peer: Peer, offset: int) -> list[int]:
    """Of the records of the batch there."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    request = FetchRequest(max_bytes=100_000, topics=[FetchTopic(topic="orders", partitions=[wanted])])
    records = (await peer.ask(request, 11, FetchResponse)).responses[0].partitions[0].records
    assert records is not None
    assert not isinstance(records, list)
    return [record.timestamp for record in decode_records(records)]


@pytest.mark.parametrize(
    "wanted",
    [
        resource(TOPIC, "orders", ("max.message.bytes", SET, "1000")),
        resource(BROKER, "1", ("message.max.bytes", SET, "1000")),
        resource(BROKER, "", ("message.max.bytes", SET, "1000")),
    ],
    ids=["topic", "broker", "all brokers"],
)
async def test_a_smaller_max_batch_size_applies_at_once(peer: Peer, wanted: Resource) -> None:
    assert (await store(peer, b"x" * 2000)).error_code == ErrorCode.NONE
    assert await alter(peer, wanted) == [ErrorCode.NONE]
    assert (await store(peer, b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    "wanted",
    [
        resource(TOPIC, "orders", ("message.timestamp.type", SET, "LogAppendTime")),
        resource(BROKER, "1", ("log.message.timestamp.type", SET, "LogAppendTime")),
    ],
    ids=["topic", "broker"],
)
async def test_with_log_append_time_the_brokers_clock_is_used(peer: Peer, broker: Broker, wanted: Resource) -> None:
    assert (await store(peer, b"a")).log_append_time_ms == -1
    assert await timestamps(peer, 0) == [THEN]
    assert await alter(peer, wanted) == [ErrorCode.NONE]
    before = broker.now()
    stored = await store(peer, b"b")
    assert before <= stored.log_append_time_ms <= broker.now()
    # The records' own CRC is checked when they are decoded: it was made anew.
    assert await timestamps(peer, stored.base_offset) == [stored.log_append_time_ms]


async def test_a_setting_of_kafka_without_effect_is_accepted_returned_and_logged_once(
    broker: Broker, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    name = str(broker.node_id)
    assert await alter(peer, resource(BROKER, name, ("num.io.threads", SET, "16"))) == [ErrorCode.NONE]
    assert await alter(peer, resource(BROKER, name, ("num.io.threads", SET, "16"))) == [ErrorCode.NONE]
    assert await alter(peer, resource(BROKER, name, ("num.io.threads", SET, "many"))) == [ErrorCode.INVALID_REQUEST]
    wanted = describe.DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
    request = describe.DescribeConfigsRequest(resources=[wanted])
    (found,) = (await peer.ask(request, 4, describe.DescribeConfigsResponse)).results
    told = {config.name: (config.value, config.config_source) for config in found.configs}
    assert told["num.io.threads"] == ("16", Source.BROKER)
    assert told["num.replica.fetchers"] == ("1", Source.DEFAULT)
    lines = [record.getMessage() for record in caplog.records if "num.io.threads" in record.getMessage()]
    assert lines == ["num.io.threads=16 has no effect: the broker has no thread pools"]


async def test_a_start_names_the_settings_that_have_no_effect(
    start_broker: MakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"num.io.threads": "16", "replica.selector.class": RACK_AWARE, "message.max.bytes": "5000"}
    await start_broker(BrokerOptions(port=0, settings=settings))
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sorted(re.split("[ =]", line)[0] for line in warned) == ["num.io.threads", "replica.selector.class"]
    assert all("effect" in line for line in warned)


async def test_every_setting_that_kafka_lets_an_admin_change_is_taken_but_for_those_of_security(
    broker: Broker, peer: Peer
) -> None:
    # Of DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS in Apache Kafka 4.3.1; there is neither TLS nor SASL to configure.
    changed = [
        ("follower.replication.throttled.rate", SET, "1000"),
        ("leader.replication.throttled.rate", SET, "1000"),
        ("log.cleaner.backoff.ms", SET, "1000"),
        ("log.cleaner.dedupe.buffer.size", SET, "2000000"),
        ("log.cleaner.threads", SET, "2"),
        ("log.flush.interval.ms", SET, "1000"),
        ("max.connections.per.ip", SET, "10"),
        ("metric.reporters", SET, "a.B"),
        ("min.insync.replicas", SET, "2"),
        ("num.network.threads", SET, "4"),
        ("producer.id.expiration.ms", SET, "60000"),
        ("remote.log.reader.threads", SET, "4"),
    ]
    for change in changed:
        assert await alter(peer, resource(BROKER, "", change)) == [ErrorCode.NONE], change[0]
    for refused in (("ssl.client.auth", SET, "required"), ("process.roles", SET, "broker")):
        assert await alter(peer, resource(BROKER, "", refused)) == [ErrorCode.INVALID_REQUEST], refused[0]
