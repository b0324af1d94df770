"""DescribeConfigs: the configs of topics, groups, client metrics and this broker, and their sources (KIP-226)."""

from collections.abc import Callable, Mapping
from typing import Protocol

from kohort.broker.apis.resources import ResourceType, check_broker_name
from kohort.broker.config import (
    Address,
    ConfigEntry,
    DynamicConfig,
    GroupConfigs,
    Subscriptions,
    client_metrics_entries,
    group_entries,
    topic_entries,
)
from kohort.broker.logs import Topics, is_legal_name
from kohort.broker.net import Call
from kohort.errors import ErrorCode, KafkaError
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    group_configs: GroupConfigs
    dynamic_config: DynamicConfig
    log_directory: str
    node_id: int
    subscriptions: Subscriptions
    topics: Topics

    @property
    def endpoints(self) -> Mapping[str, Address]: ...


_TYPES = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""Numbers of the types on the wire."""


def handle(broker: Dependencies, call: Call, request: DescribeConfigsRequest) -> None:
    """Describe each resource independently; an unknown resource type fails the whole request, as in Kafka."""
    if all(resource.resource_type in set(ResourceType) for resource in request.resources):
        results = [_describe(broker, resource, request) for resource in request.resources]
    else:
        results = [
            _refused(entry, ErrorCode.INVALID_REQUEST, "The resource type is unknown.") for entry in request.resources
        ]
    call.reply(DescribeConfigsResponse(results=results))


def _describe(
    broker: Dependencies, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    try:
        describe = _describers[ResourceType(resource.resource_type)]
        entries = describe(broker, resource.resource_name)
    except KafkaError as error:
        return _refused(resource, error.code, error.sentence)
    kind, wanted = resource.resource_type, resource.configuration_keys
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(kind, entry, request) for entry in entries if not wanted or entry.name in wanted],
    )


def _topic(broker: Dependencies, name: str) -> list[ConfigEntry]:
    if not is_legal_name(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = broker.topics.named(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic_entries(topic.configs, broker.dynamic_config)


def _broker(broker: Dependencies, name: str) -> list[ConfigEntry]:
    """Describe all configs of this broker or, without a name, those that were changed for all brokers."""
    if not name:
        return broker.dynamic_config.described_of_all_brokers()
    check_broker_name(name, broker.node_id)
    facts = {
        "broker.id": str(broker.node_id),
        "node.id": str(broker.node_id),
        "log.dirs": broker.log_directory,
        "advertised.listeners": ",".join(f"{name}://{address}" for name, address in broker.endpoints.items()),
    }
    return broker.dynamic_config.described(facts)


def _group(broker: Dependencies, name: str) -> list[ConfigEntry]:
    """Describe a group's configs; it need not exist, because configs may be set before."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The name of a group must not be empty.")
    return group_entries(broker.group_configs.of(name), broker.dynamic_config)


def _client_metrics(broker: Dependencies, name: str) -> list[ConfigEntry]:
    """Describe a client metrics subscription; one that does not exist has the defaults."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The name of a client metrics subscription must not be empty.")
    return client_metrics_entries(broker.subscriptions.of(name))


def _unsupported(broker: Dependencies, name: str) -> list[ConfigEntry]:
    raise KafkaError(ErrorCode.INVALID_REQUEST, "This broker's loggers have no configs.")


_describers: dict[ResourceType, Callable[[Dependencies, str], list[ConfigEntry]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.GROUP: _group,
    ResourceType.BROKER_LOGGER: _unsupported,
    ResourceType.CLIENT_METRICS: _client_metrics,
}


def _entry(kind: int, entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    setting = entry.setting
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.described_text,
        read_only=kind == ResourceType.BROKER and not setting.live,
        config_source=entry.source,
        is_sensitive=setting.sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=setter.name, value=None if setting.sensitive else setter.text, source=setter.source
            )
            for setter in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=_TYPES[setting.kind],
        documentation=setting.documentation if request.include_documentation else None,
    )


def _refused(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
