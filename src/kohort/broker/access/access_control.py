"""The ACLs of the cluster, kept in the log store, and the decisions by them."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from kohort.broker.config import BrokerConfig
from kohort.broker.net import ClientConnection
from kohort.coordinator import Viewer
from kohort.errors import ConfigError
from kohort.log import LogStore
from kohort.security import (
    CLUSTER_NAME,
    Acl,
    Acls,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    parse_super_users,
)

log = logging.getLogger("kohort.broker")

ACLS = "acls"
"""Kind of the stored configs that hold ACLs: one entry for each resource pattern, one config for each ACL."""


class AccessControl:
    """Decides what the client of a connection may do. Any broker may change the ACLs, which are in the store."""

    def __init__(self, config: BrokerConfig, broker_listener: str) -> None:
        """Read the settings. Raise ConfigError. Brokers connect to the listener `broker_listener`."""
        self._broker_listener = broker_listener
        try:
            self._super_users = parse_super_users(config.text("super.users"))
        except ValueError as error:
            raise ConfigError(f"super.users takes TYPE:NAME, such as User:admin, not {str(error)!r}.") from None
        self._allow_if_no_acl = config.flag("allow.everyone.if.no.acl.found")
        self._store: LogStore | None = None
        self._authorizer = self._new_authorizer(())

        self.on_change: Callable[[], None] = lambda: None
        """Called after the ACLs changed."""

    def open(self, store: LogStore) -> None:
        """Read the ACLs from the store."""
        self._store = store
        self.follow()

    def follow(self) -> None:
        """Read the ACLs again, after the store has changed."""
        assert self._store is not None
        before = self.acls.all
        self._authorizer = self._new_authorizer(_stored_acls(self._store.configs(ACLS)))
        if self.acls.all != before:
            self.on_change()

    def _new_authorizer(self, acls: Iterable[Acl]) -> Authorizer:
        return Authorizer(Acls(acls), super_users=self._super_users, allow_if_no_acl=self._allow_if_no_acl)

    @property
    def acls(self) -> Acls:
        """All ACLs."""
        return self._authorizer.acls

    def add(self, acls: Sequence[Acl]) -> None:
        """Add ACLs, durably. Raise OSError; those before the failure are added."""
        assert self._store is not None
        try:
            for pattern in dict.fromkeys(acl.pattern for acl in acls):
                added = {_entry(acl): "" for acl in acls if acl.pattern == pattern}
                self._store.change_configs(ACLS, _key(pattern), added)
        finally:
            self.follow()

    def remove(self, acls: Sequence[Acl]) -> None:
        """Remove ACLs, durably. Raise OSError; those before the failure are removed."""
        assert self._store is not None
        try:
            for pattern in dict.fromkeys(acl.pattern for acl in acls):
                removed = {_entry(acl): None for acl in acls if acl.pattern == pattern}
                self._store.change_configs(ACLS, _key(pattern), removed)
        finally:
            self.follow()

    def may(self, connection: ClientConnection, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the connection's client may do this."""
        host = connection.host.removeprefix("/")
        return self._authorizer.allowed(connection.principal, host, operation, resource_type, name)

    def may_describe(self, viewer: Viewer, topic: str) -> bool:
        """Return whether a member of a group may describe a topic that its regular expression matches."""
        principal, host = viewer
        return self._authorizer.allowed(principal, host, Operation.DESCRIBE, ResourceType.TOPIC, topic)

    def viewer(self, connection: ClientConnection) -> Viewer:
        """Return the connection's client, for `may_describe`."""
        return connection.principal, connection.host.removeprefix("/")

    def may_describe_topic(self, connection: ClientConnection, name: str) -> bool:
        """Return whether the connection's client may describe the topic. Brokers may describe all, by ClusterAction."""
        return self.may(connection, Operation.DESCRIBE, ResourceType.TOPIC, name) or self.is_broker(connection)

    def may_with_any(self, connection: ClientConnection, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the connection's client may do this with any resource of the type that could exist."""
        host = connection.host.removeprefix("/")
        return self._authorizer.allowed_for_any(connection.principal, host, operation, resource_type)

    def is_broker(self, connection: ClientConnection) -> bool:
        """Return whether the connection's client acts as a broker of the cluster.

        `allow.everyone.if.no.acl.found` makes nobody a broker: a topic could not be hidden from anyone then.
        """
        if connection.listener != self._broker_listener:
            return False
        host = connection.host.removeprefix("/")
        return self._authorizer.allowed_by_acl(connection.principal, host, Operation.CLUSTER_ACTION, *CLUSTER)

    def operations(self, connection: ClientConnection, resource_type: ResourceType, name: str) -> list[Operation]:
        """Return what the connection's client may do with the resource."""
        host = connection.host.removeprefix("/")
        return self._authorizer.operations(connection.principal, host, resource_type, name)


def _key(pattern: ResourcePattern) -> str:
    return json.dumps([pattern.resource_type.name, pattern.pattern_type.name, pattern.name])


def _entry(acl: Acl) -> str:
    return json.dumps([acl.principal, acl.host, acl.operation.name, acl.permission.name])


def _stored_acls(stored: Mapping[str, Mapping[str, str]]) -> list[Acl]:
    found = []
    for key, entries in stored.items():
        for entry in entries:
            try:
                kind, pattern, name = json.loads(key)
                principal, host, operation, permission = json.loads(entry)
                resources = ResourcePattern(ResourceType[kind], name, PatternType[pattern])
                found.append(Acl(resources, principal, host, Operation[operation], Permission[permission]))
            except (ValueError, KeyError, TypeError) as error:
                # A denial that cannot be read must not turn into a permission.
                raise ConfigError(f"The stored ACL {key} {entry} cannot be read: {error!r}.") from None
    return found


CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)
"""The cluster as a resource."""
