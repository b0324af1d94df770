"""DescribeConfigs: the configs of topics, groups and this broker, and the source of each value (KIP-226)."""

from collections.abc import Callable, Iterable
from typing import Protocol

from kohort.broker.apis.resources import ResourceType, check_broker_name
from kohort.broker.config.dynamic import DynamicConfig, Setter, Source
from kohort.broker.config.groups import GROUP_SETTINGS, GroupConfigs, group_setters
from kohort.broker.config.setting import Setting
from kohort.broker.config.static import SETTINGS
from kohort.broker.config.topics import TOPIC_SETTINGS, topic_setters
from kohort.broker.config.without_effect import ABSENT_UNLESS_SET, NULL_UNLESS_SET
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
    topics: Topics

    @property
    def address(self) -> str: ...


_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7
_LARGEST_INT = 2**31 - 1

_Entries = Iterable[tuple[str, Setting, list[Setter]]]
"""Name, setting, and the sources that set it in descending precedence."""


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
        configs=[
            _entry(kind, name, setting, setters, request)
            for name, setting, setters in entries
            if not wanted or name in wanted
        ],
    )


def _topic(broker: Dependencies, name: str) -> _Entries:
    if not is_legal_name(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = broker.topics.named(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    live = broker.dynamic_config
    return [(key, setting, topic_setters(key, topic.configs, live)) for key, setting in TOPIC_SETTINGS.items()]


def _broker(broker: Dependencies, name: str) -> _Entries:
    """Describe all configs of this broker or, without a name, those that were changed for all brokers."""
    live = broker.dynamic_config
    if not name:
        changed = live.changed(Source.ALL_BROKERS)
        return [(key, SETTINGS[key], [Setter(Source.ALL_BROKERS, key, text)]) for key, text in changed.items()]
    check_broker_name(name, broker.node_id)
    facts = {
        "broker.id": str(broker.node_id),
        "node.id": str(broker.node_id),
        "log.dirs": broker.log_directory,
        "advertised.listeners": f"PLAINTEXT://{broker.address}",
    }
    told = [(key, _FACTS[key], [Setter(Source.STARTED_WITH, key, text)]) for key, text in facts.items()]
    setters = {key: live.setters(key) for key in SETTINGS if key not in facts}
    return told + [
        (key, SETTINGS[key], found)
        for key, found in setters.items()
        if key not in ABSENT_UNLESS_SET or found[0].source is not Source.DEFAULT
    ]


_FACTS = {
    "broker.id": Setting(0, "ID of this broker, from --node-id.", 0, _LARGEST_INT),
    "node.id": Setting(0, "ID of this broker, from --node-id.", 0, _LARGEST_INT),
    "log.dirs": Setting("", "Directory of the log, from --data.", is_list=True),
    "advertised.listeners": Setting("", SETTINGS["advertised.listeners"].doc, is_list=True),
}


def _group(broker: Dependencies, name: str) -> _Entries:
    """Describe a group's configs; it need not exist, because configs may be set before."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The name of a group must not be empty.")
    own, live = broker.group_configs.of(name), broker.dynamic_config
    return [(key, setting, group_setters(key, own, live)) for key, setting in GROUP_SETTINGS.items()]


def _unsupported(broker: Dependencies, name: str) -> _Entries:
    raise KafkaError(ErrorCode.INVALID_REQUEST, "This broker has configs of topics, brokers and groups only.")


_describers: dict[ResourceType, Callable[[Dependencies, str], _Entries]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.GROUP: _group,
    ResourceType.BROKER_LOGGER: _unsupported,
    ResourceType.CLIENT_METRICS: _unsupported,
}


def _entry(
    kind: int, name: str, setting: Setting, setters: list[Setter], request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    counts = setters[0]
    if name in NULL_UNLESS_SET:
        setters = [setter for setter in setters if setter.source is not Source.DEFAULT]
    return DescribeConfigsResourceResult(
        name=name,
        value=counts.text if setters else None,
        read_only=kind == ResourceType.BROKER and not setting.live,
        config_source=counts.source,
        synonyms=[
            DescribeConfigsSynonym(name=setter.name, value=setter.text, source=setter.source)
            for setter in setters
            # No broker setting sets the default of a config that only topics have, so that default is no synonym.
            if setter.source is not Source.DEFAULT or setter.name in SETTINGS
        ]
        if request.include_synonyms
        else [],
        config_type=_type(setting),
        documentation=setting.documentation if request.include_documentation else None,
    )


def _type(setting: Setting) -> int:
    match setting.default:
        case bool():
            return _BOOLEAN
        case int():
            return _INT if setting.high is not None and setting.high <= _LARGEST_INT else _LONG
        case float():
            return _DOUBLE
        case _:
            return _LIST if setting.is_list else _STRING


def _refused(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
