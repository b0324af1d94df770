"""IncrementalAlterConfigs and AlterConfigs: change configs of topics, groups, client metrics and this broker.

See KIP-133 and KIP-339.

Changes are durable when the answer is sent. A resource is changed completely or not at all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kohort.broker.apis.resources import ResourceType, check_broker_name
from kohort.broker.config import (
    BrokerConfig,
    ConfigEntry,
    DynamicConfig,
    GroupConfigs,
    Source,
    Subscriptions,
    check_group_configs,
    group_entries,
    subscription,
    topic_entries,
)
from kohort.broker.logs import DiskErrors, Leadership, Topics, is_legal_name
from kohort.broker.net import Call
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from kohort.wire.messages.incremental_alter_configs import AlterableConfig as Operation
from kohort.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from kohort.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    disk_errors: DiskErrors
    group_configs: GroupConfigs
    leadership: Leadership
    dynamic_config: DynamicConfig
    node_id: int
    subscriptions: Subscriptions
    topics: Topics

    def change_config(self, source: Source, configs: Mapping[str, str]) -> None: ...

    def change_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None: ...


_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


@dataclass(frozen=True, slots=True)
class _Change:
    """The requested change of one resource."""

    kind: int
    name: str
    operations: Sequence[Operation]
    keeps_the_rest: bool

    def apply(self, configs: Mapping[str, str], entries: Sequence[ConfigEntry]) -> dict[str, str]:
        """Return the configs that the resource sets after the change; `configs` are those that it sets now."""
        lists = {entry.name: entry for entry in entries if entry.setting.is_list}
        changed = dict(configs) if self.keeps_the_rest else {}
        for entry in self.operations:
            operation, text = entry.config_operation, entry.value or ""
            if operation == _SET:
                changed[entry.name] = text
            elif operation == _DELETE:
                changed.pop(entry.name, None)
            elif operation not in (_APPEND, _SUBTRACT):
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Operation {operation} is unknown.")
            elif entry.name not in lists:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{entry.name} can only be set as a whole.")
            elif operation == _APPEND:
                changed[entry.name] = lists[entry.name].with_parts(text)
            else:
                changed[entry.name] = lists[entry.name].without_parts(text)
        return changed


def incremental(broker: Dependencies, call: Call, request: IncrementalAlterConfigsRequest) -> None:
    """Change the named configs and leave all others as they are."""
    changes = [
        _Change(resource.resource_type, resource.resource_name, resource.configs, True)
        for resource in request.resources
    ]
    responses = [
        IncrementalAlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=change.kind, resource_name=change.name
        )
        for change, code, message in _outcomes(broker, changes, request.validate_only)
    ]
    call.reply(IncrementalAlterConfigsResponse(responses=responses))


def replace_all(broker: Dependencies, call: Call, request: AlterConfigsRequest) -> None:
    """Set the named configs and reset all others to their defaults."""
    changes = [
        _Change(
            resource.resource_type,
            resource.resource_name,
            [Operation(name=entry.name, config_operation=_SET, value=entry.value) for entry in resource.configs],
            False,
        )
        for resource in request.resources
    ]
    responses = [
        AlterConfigsResourceResponse(
            error_code=code, error_message=message, resource_type=change.kind, resource_name=change.name
        )
        for change, code, message in _outcomes(broker, changes, request.validate_only)
    ]
    call.reply(AlterConfigsResponse(responses=responses))


def _outcomes(
    broker: Dependencies, changes: Sequence[_Change], validate_only: bool
) -> Iterator[tuple[_Change, ErrorCode, str | None]]:
    """Apply the changes, each independently of the others; yield the error code and message of each."""
    named = Counter((change.kind, change.name) for change in changes)
    for change in changes:
        try:
            if named[change.kind, change.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            _check(change)
            broker.leadership.catch_up()
            _alter(broker, change, validate_only)
        except KafkaError as error:
            yield change, error.code, error.sentence
        except OSError as error:
            broker.disk_errors.note(f"keep the configs of {change.name or 'all brokers'}", error)
            yield change, ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        else:
            yield change, ErrorCode.NONE, None


def _check(change: _Change) -> None:
    names = [operation.name for operation in change.operations]
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A config appears twice in the request.")
    nulls = [
        operation.name
        for operation in change.operations
        if operation.value is None and operation.config_operation != _DELETE
    ]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null is not a value of {', '.join(nulls)}: delete it instead.")


def _alter(broker: Dependencies, change: _Change, validate_only: bool) -> None:
    match change.kind:
        case ResourceType.TOPIC:
            _alter_topic(broker, change, validate_only)
        case ResourceType.BROKER:
            _alter_broker(broker, change, validate_only)
        case ResourceType.GROUP:
            _alter_group(broker, change, validate_only)
        case ResourceType.CLIENT_METRICS:
            _alter_client_metrics(broker, change, validate_only)
        case _:
            detail = "Only the configs of topics, brokers, groups and client metrics can be altered."
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)


def _alter_topic(broker: Dependencies, change: _Change, validate_only: bool) -> None:
    name = change.name
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Specify a topic: no config applies to all topics.")
    if not is_legal_name(name):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    topic = broker.topics.named(name)
    now = {} if topic is None else topic.configs
    configs = change.apply(now, topic_entries(now, broker.dynamic_config))
    topic = broker.topics.check_configured(name, configs)
    if not validate_only:
        broker.topics.configure(topic, configs)


def _alter_broker(broker: Dependencies, change: _Change, validate_only: bool) -> None:
    """Alter this broker's configs, or those of all brokers if the resource has no name."""
    if change.name:
        check_broker_name(change.name, broker.node_id)
    live, source = broker.dynamic_config, Source.BROKER if change.name else Source.ALL_BROKERS
    configs = change.apply(live.changed(source), live.entries())
    try:
        if validate_only:
            live.check(source, configs)
        else:
            broker.change_config(source, configs)
    except ConfigError as error:
        # KAFKA-13609: INVALID_CONFIG would be more precise, but this is the code that clients expect.
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _alter_group(broker: Dependencies, change: _Change, validate_only: bool) -> None:
    if not change.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Specify a group: no config applies to all groups.")
    now = broker.group_configs.of(change.name)
    configs = change.apply(now, group_entries(now, broker.dynamic_config))
    try:
        check_group_configs(configs, broker.config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if not validate_only:
        broker.change_group_configs(change.name, configs)


def _alter_client_metrics(broker: Dependencies, change: _Change, validate_only: bool) -> None:
    if not change.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Specify a client metrics subscription: its name is empty.")
    now = broker.subscriptions.of(change.name)
    configs = change.apply(now, ())  # as in Kafka, its lists can only be set as a whole
    subscription(configs)  # raises KafkaError if they are invalid
    if not validate_only:
        broker.subscriptions.change(change.name, configs)
