"""DescribeConfigs and ListConfigResources: values, and where they come from."""

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.entries import Source
from kohort.broker.config.topics import TOPIC_SETTINGS
from kohort.broker.config.without_effect import ABSENT_UNLESS_SET, NULL_UNLESS_SET
from kohort.errors import ErrorCode
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
    DescribeConfigsResult,
)
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7


async def describe(
    peer: Peer, kind: int, name: str, *keys: str, version: int = 4, synonyms: bool = True, docs: bool = False
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=docs)
    (result,) = (await peer.ask(request, version, DescribeConfigsResponse)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def described_config(peer: Peer, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (config,) = (await describe(peer, kind, name, key)).configs
    assert config.name == key
    return config


def sources(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms]


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_returns_all_configs_of_a_topic(peer: Peer, broker: Broker, version: int) -> None:
    broker.topics.create("orders", 1, {"retention.ms": "60000"})
    found = await describe(peer, TOPIC, "orders", version=version)
    values = {config.name: (config.value, config.config_source, config.read_only) for config in found.configs}
    assert set(values) == set(TOPIC_SETTINGS)
    assert values["retention.ms"] == ("60000", Source.TOPIC, False)
    assert values["segment.bytes"] == ("1073741824", Source.DEFAULT, False)


async def test_a_topics_value_comes_before_the_brokers_and_the_default(start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0, settings={"log.retention.ms": "70000"}))
    broker.topics.create("own", 1, {"retention.ms": "60000"})
    broker.topics.create("plain", 1)
    async with talking_to(broker) as peer:
        own, plain = [await described_config(peer, TOPIC, name, "retention.ms") for name in ("own", "plain")]
    inherited = [
        ("log.retention.ms", "70000", Source.STARTED_WITH),
        ("log.retention.ms", "604800000", Source.DEFAULT),
    ]
    assert sources(own) == [("retention.ms", "60000", Source.TOPIC), *inherited]
    assert (plain.value, plain.config_source, sources(plain)) == ("70000", Source.STARTED_WITH, inherited)


async def test_types_and_documentation_are_returned_on_request(peer: Peer, broker: Broker) -> None:
    broker.topics.create("orders", 1)
    found = await describe(peer, TOPIC, "orders", docs=True, synonyms=False)
    types = {config.name: config.config_type for config in found.configs}
    assert (types["retention.ms"], types["segment.bytes"], types["cleanup.policy"]) == (LONG, INT, LIST)
    assert types["message.timestamp.type"] == STRING
    assert all(config.documentation and not config.synonyms for config in found.configs)
    assert all(config.documentation is None for config in (await describe(peer, TOPIC, "orders")).configs)


async def test_documentation_names_configs_without_effect_and_kafkas_behavior(peer: Peer, broker: Broker) -> None:
    found = await describe(peer, BROKER, str(broker.node_id), "num.io.threads", "max.request.elements", docs=True)
    assert {config.name: config.documentation for config in found.configs} == {
        "num.io.threads": "Number of threads that process requests. No effect: the broker has no thread pools.",
        "max.request.elements": "Maximum number of elements in all arrays of a request. A request with more closes its"
        " connection. In Apache Kafka: absent.",
    }


async def test_keys_choose_and_unknown_ones_are_left_out(peer: Peer, broker: Broker) -> None:
    broker.topics.create("orders", 1)
    found = await describe(peer, TOPIC, "orders", "retention.ms", "nonsense")
    assert [config.name for config in found.configs] == ["retention.ms"]


async def test_a_broker_returns_all_its_settings_and_which_are_dynamic(peer: Peer, broker: Broker) -> None:
    found = {config.name: config for config in (await describe(peer, BROKER, str(broker.node_id))).configs}
    told = set(SETTINGS) - ABSENT_UNLESS_SET
    assert set(found) == told | {"broker.id", "node.id", "log.dirs"}
    assert {name for name, config in found.items() if not config.read_only} == {
        name for name in told if SETTINGS[name].live
    }
    assert found["node.id"].value == str(broker.node_id)
    listener = found["advertised.listeners"]
    # Where clients are sent, whether it was said at the start or follows from where the broker listens.
    assert (listener.value, listener.config_source) == (f"PLAINTEXT://{broker.host}:{broker.port}", Source.STARTED_WITH)
    assert (found["auto.create.topics.enable"].value, found["auto.create.topics.enable"].config_type) == (
        "true",
        BOOLEAN,
    )


@pytest.mark.parametrize("name", sorted(NULL_UNLESS_SET))
async def test_a_setting_that_kafka_derives_from_others_is_null_until_it_is_set(
    name: str, start_broker: MakeBroker
) -> None:
    for settings, expected in (
        ({}, (None, Source.DEFAULT, [])),
        ({name: "1000"}, ("1000", Source.STARTED_WITH, [(name, "1000", Source.STARTED_WITH)])),
    ):
        broker = await start_broker(BrokerOptions(port=0, settings=settings))
        async with talking_to(broker) as peer:
            found = await described_config(peer, BROKER, str(broker.node_id), name)
        assert (found.value, found.config_source, sources(found)) == expected


@pytest.mark.parametrize("name", sorted(ABSENT_UNLESS_SET))
async def test_a_throttle_that_kafka_has_only_when_it_is_set_is_absent_until_then(
    name: str, start_broker: MakeBroker
) -> None:
    for settings, expected in (({}, []), ({name: "1000"}, [(name, "1000")])):
        broker = await start_broker(BrokerOptions(port=0, settings=settings))
        async with talking_to(broker) as peer:
            found = await describe(peer, BROKER, str(broker.node_id), name)
        assert [(config.name, config.value) for config in found.configs] == expected


async def test_all_brokers_together_have_what_was_changed_for_all(peer: Peer, broker: Broker) -> None:
    assert (await describe(peer, BROKER, "")).configs == []
    broker.change_config(Source.ALL_BROKERS, {"message.max.bytes": "5000"})
    (config,) = (await describe(peer, BROKER, "")).configs
    assert (config.name, config.value, config.config_source) == ("message.max.bytes", "5000", Source.ALL_BROKERS)


async def test_a_group_has_what_it_sets_over_what_the_broker_gives_to_all(peer: Peer, broker: Broker) -> None:
    broker.group_configs.change("g", {"consumer.heartbeat.interval.ms": "7000"})
    broker.change_config(Source.BROKER, {"group.consumer.assignment.interval.ms": "0"})
    found = {config.name: (config.value, config.config_source) for config in (await describe(peer, GROUP, "g")).configs}
    assert found == {
        "consumer.session.timeout.ms": ("45000", Source.DEFAULT),
        "consumer.heartbeat.interval.ms": ("7000", Source.GROUP),
        "consumer.assignment.interval.ms": ("0", Source.BROKER),
        "consumer.assignor": ("", Source.DEFAULT),
        "consumer.member.weights": ("", Source.DEFAULT),
    }


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "no spaces", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (METRICS, "", ErrorCode.INVALID_REQUEST),
        (99, "what", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_without_configs_gets_a_reason(peer: Peer, kind: int, name: str, code: ErrorCode) -> None:
    found = await describe(peer, kind, name)
    assert (found.error_code, bool(found.error_message), found.configs) == (code, True, [])


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_a_created_topic_is_answered_with_its_configs(peer: Peer, version: int) -> None:
    # KIP-525: the response to CreateTopics contains the topic's configs.
    entry = CreatableTopicConfig(name="retention.ms", value="60000")
    wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, configs=[entry])
    (made,) = (await peer.ask(CreateTopicsRequest(topics=[wanted]), version, CreateTopicsResponse)).topics
    assert made.configs is not None
    told = {config.name: (config.value, config.config_source) for config in made.configs}
    assert set(told) == set(TOPIC_SETTINGS)
    assert told["retention.ms"] == ("60000", Source.TOPIC)


async def test_null_is_not_a_config_of_a_new_topic(peer: Peer) -> None:
    entry = CreatableTopicConfig(name="retention.ms", value=None)
    wanted = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, configs=[entry])
    (made,) = (await peer.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse)).topics
    assert (made.error_code, made.configs) == (ErrorCode.INVALID_CONFIG, [])


async def resources(peer: Peer, *kinds: int, version: int = 1) -> tuple[int, set[tuple[int, str]]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = await peer.ask(request, version, ListConfigResourcesResponse)
    return answer.error_code, {(found.resource_type, found.resource_name) for found in answer.config_resources}


async def test_the_resources_that_have_configs_are_listed(peer: Peer, broker: Broker) -> None:
    broker.topics.create("orders", 1)
    topics, me = {(TOPIC, "orders"), (TOPIC, "__consumer_offsets")}, {(BROKER, str(broker.node_id))}
    assert await resources(peer) == (ErrorCode.NONE, topics | me)
    assert await resources(peer, TOPIC) == (ErrorCode.NONE, topics)
    assert await resources(peer, BROKER, GROUP) == (ErrorCode.NONE, me)
    broker.group_configs.change("g", {"consumer.heartbeat.interval.ms": "7000"})
    assert await resources(peer, GROUP) == (ErrorCode.NONE, {(GROUP, "g")})
    assert await resources(peer, METRICS, LOGGER) == (ErrorCode.NONE, set())
    assert await resources(peer, TOPIC, 99) == (ErrorCode.UNSUPPORTED_VERSION, set())
    assert await resources(peer, version=0) == (ErrorCode.NONE, set()), "once it listed metrics subscriptions only"
