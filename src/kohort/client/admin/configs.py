"""Configs of topics, brokers and groups."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kohort.client.net import BrokerConnection, Cluster
from kohort.errors import ConfigError
from kohort.requests import check
from kohort.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

_SET, _DELETE = 0, 1


class ConfigKind(IntEnum):
    """Type of a config resource, with its number on the wire."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    """Subscriptions to metrics that clients push (KIP-714)."""
    GROUP = 32


class ConfigSource(IntEnum):
    """Source of a config value, with its number on the wire (KIP-226)."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    """Dynamic config of one broker."""
    ALL_BROKERS = 3
    """Dynamic default of all brokers."""
    STARTED_WITH = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> "ConfigSource":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """Config value. It is None for a sensitive config."""

    value: str | None
    source: ConfigSource
    read_only: bool

    @property
    def is_default(self) -> bool:
        """Whether the value is Kafka's default, because it is set nowhere."""
        return self.source is ConfigSource.DEFAULT


def checked_resource(kind: object, name: object) -> tuple[ConfigKind, str]:
    """Return type and name of a resource with configs. Raises ConfigError."""
    if not isinstance(kind, ConfigKind):
        choices = ", ".join(f"ConfigKind.{choice.name}" for choice in ConfigKind)
        raise ConfigError(f"the kind is {kind!r}, but must be one of: {choices}.")
    if not isinstance(name, str):
        raise ConfigError(f"the name of the {kind.name.lower()} is {name!r}, but must be text.")
    return kind, name


def checked_changes(changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the values of configs by name. Raises ConfigError."""
    if not isinstance(changes, Mapping):
        raise ConfigError(f"the configs are {changes!r}, but must be a mapping of names to values.")
    for name, value in changes.items():
        if not isinstance(name, str):
            raise ConfigError(f"{name!r} is not the name of a config: pass text.")
        if not isinstance(value, str | None):
            raise ConfigError(f"the value of {name} is {value!r}, but must be text: pass {str(value)!r}.")
    return dict(changes)


async def describe_configs(cluster: Cluster, kind: ConfigKind, name: str) -> dict[str, ConfigValue]:
    """Return all configs of one resource by name."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource])

    async def attempt() -> dict[str, ConfigValue]:
        connection = await _connection(cluster, kind, name)
        response = await connection.request(request, DescribeConfigsResponse)
        found: dict[str, ConfigValue] = {}
        for result in response.results:
            check(result.error_code, name, result.error_message)
            for config in result.configs:
                found[config.name] = ConfigValue(config.value, ConfigSource(config.config_source), config.read_only)
        return found

    return await cluster.retrying(attempt)


async def alter_configs(cluster: Cluster, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
    """Set configs, or reset them to their defaults (None). Other configs remain unchanged (KIP-339)."""
    configs = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)

    async def attempt() -> None:
        connection = await _connection(cluster, kind, name)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await connection.request(request, IncrementalAlterConfigsResponse)
        for result in response.responses:
            check(result.error_code, name, result.error_message)

    await cluster.retrying(attempt)


async def list_config_resources(cluster: Cluster, kinds: Collection[ConfigKind]) -> list[tuple[ConfigKind, str]]:
    """Return the resources that have configs, of these kinds or of all (KIP-1142).

    Kinds unknown to this client are omitted.
    """
    request = ListConfigResourcesRequest(resource_types=[int(kind) for kind in kinds])
    response = await cluster.retrying(lambda: cluster.ask_any(request, ListConfigResourcesResponse))
    check(response.error_code)
    known = {int(kind): kind for kind in ConfigKind}
    return sorted(
        (known[resource.resource_type], resource.resource_name)
        for resource in response.config_resources
        if resource.resource_type in known
    )


async def _connection(cluster: Cluster, kind: ConfigKind, name: str) -> BrokerConnection:
    """Return a connection for a config request.

    Only the broker itself knows its own configs; any broker knows all others.
    """
    if not cluster.metadata.brokers:
        await cluster.refresh()
    if kind is ConfigKind.BROKER and name.isdecimal():
        return await cluster.connection(int(name))
    return await cluster.any_connection()
