"""The options of `kohort acl` as ACLs and filters, by the rules of `kafka-acls.sh`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kohort.errors import ConfigError
from kohort.security import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    is_principal,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """The resources that the options name."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    cluster: bool = False
    pattern_type: PatternType = PatternType.LITERAL

    def filters(self) -> list[AclFilter]:
        """Return a filter for each resource."""
        named = (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
        )
        found = [AclFilter(kind, name, self.pattern_type) for kind, names in named for name in dict.fromkeys(names)]
        if not all(wanted.name for wanted in found):
            raise ConfigError(f"The name of a resource cannot be empty; use {WILDCARD} for all.")
        if self.cluster:
            found.insert(0, AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """Operations to allow and to deny to principals, and roles, which are sets of operations."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    @property
    def roles(self) -> bool:
        """Whether a role is given."""
        return self.producer or self.consumer

    def entries(self, operations: Iterable[Operation]) -> list[AclFilter]:
        """Return the rules for these operations, without resources. Without a principal there is none."""
        found = []
        for permission, principals, hosts in (
            (Permission.ALLOW, self.allowed, self.allowed_hosts),
            (Permission.DENY, self.denied, self.denied_hosts),
        ):
            found += [
                AclFilter(principal=_principal(principal), host=host, operation=operation, permission=permission)
                for principal in dict.fromkeys(principals)
                for host in dict.fromkeys(hosts or (WILDCARD,))
                for operation in operations
            ]
        return found


def acls_to_add(resources: Resources, rules: Rules) -> list[Acl]:
    """Return the ACLs that the options describe. Raises ConfigError."""
    if resources.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ConfigError("An ACL is added with --resource-pattern-type literal or prefixed.")
    if not rules.allowed and not rules.denied:
        raise ConfigError("Name a principal by --allow-principal or --deny-principal.")
    return [
        Acl(
            ResourcePattern(wanted.resource_type, wanted.name or "", wanted.pattern_type),
            entry.principal or "",
            entry.host or "",
            entry.operation,
            entry.permission,
        )
        for wanted, entries in _rules_by_resource(resources, rules).items()
        for entry in entries
    ]


def filters_to_remove(resources: Resources, rules: Rules) -> list[AclFilter]:
    """Return filters of the ACLs to remove: all of the resources if no principal is named. Raises ConfigError."""
    if rules.operations and not rules.allowed and not rules.denied:
        raise ConfigError("With --operation, name a principal by --allow-principal or --deny-principal.")
    return [
        replace(
            wanted, principal=entry.principal, host=entry.host, operation=entry.operation, permission=entry.permission
        )
        for wanted, entries in _rules_by_resource(resources, rules).items()
        for entry in entries or [AclFilter()]
    ]


def exactly(acls: Iterable[Acl]) -> list[AclFilter]:
    """Return filters that find only these ACLs."""
    return [
        AclFilter(
            acl.pattern.resource_type,
            acl.pattern.name,
            acl.pattern.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        for acl in acls
    ]


def filters_to_list(resources: Resources, principals: Sequence[str]) -> list[AclFilter]:
    """Return filters of the ACLs of the resources, or of all, and of the principals, or of all."""
    found = resources.filters() or [AclFilter()]
    if not principals:
        return found
    return [replace(acl_filter, principal=_principal(principal)) for acl_filter in found for principal in principals]


def _rules_by_resource(resources: Resources, rules: Rules) -> Mapping[AclFilter, list[AclFilter]]:
    _check(resources, rules)
    found: dict[AclFilter, list[AclFilter]] = {}
    wanted = resources.filters()
    if not wanted:
        raise ConfigError("Name a resource by --topic, --group, --transactional-id or --cluster.")
    operations = [_operation(text) for text in dict.fromkeys(rules.operations)] or [Operation.ALL]
    for resource in wanted:
        if rules.roles:
            found[resource] = rules.entries(_of_roles(resource.resource_type, rules))
            continue
        for operation in operations:
            if operation is not Operation.ALL and operation not in OPERATIONS[resource.resource_type]:
                have = ", ".join(
                    shown(supported) for supported in (Operation.ALL, *sorted(OPERATIONS[resource.resource_type]))
                )
                kind = shown(resource.resource_type)
                raise ConfigError(f"A {kind} has no operation {shown(operation)}. Its operations: {have}.")
        found[resource] = rules.entries(operations)
    if rules.idempotent:
        found[AclFilter(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)] = rules.entries(
            [Operation.IDEMPOTENT_WRITE]
        )
    return found


def _of_roles(kind: ResourceType, rules: Rules) -> list[Operation]:
    """Return what the roles need on a resource of that type."""
    found = set()
    if rules.producer:
        if kind is ResourceType.TOPIC:
            found |= {Operation.WRITE, Operation.DESCRIBE, Operation.CREATE}
        elif kind is ResourceType.TRANSACTIONAL_ID:
            found |= {Operation.WRITE, Operation.DESCRIBE}
    if rules.consumer:
        if kind is ResourceType.TOPIC:
            found |= {Operation.READ, Operation.DESCRIBE}
        elif kind is ResourceType.GROUP:
            found |= {Operation.READ}
    return sorted(found)


def _check(resources: Resources, rules: Rules) -> None:
    """Reject options that contradict each other, as kafka-acls.sh does."""
    if rules.roles and (rules.operations or rules.denied or rules.denied_hosts):
        raise ConfigError("--producer and --consumer cannot be combined with --operation or --deny-...")
    if rules.roles and not rules.allowed:
        raise ConfigError(f"--{'producer' if rules.producer else 'consumer'} needs --allow-principal.")
    if rules.producer and not resources.topics:
        raise ConfigError("--producer needs --topic.")
    if rules.idempotent and not rules.producer:
        raise ConfigError("--idempotent is only for --producer.")
    alone = rules.consumer and not rules.producer
    if rules.consumer and not (resources.topics and resources.groups):
        raise ConfigError("--consumer needs --topic and --group.")
    if (rules.roles and resources.cluster) or (alone and resources.transactional_ids):
        wrong = "--cluster" if resources.cluster else "--transactional-id"
        raise ConfigError(f"{wrong} cannot be combined with --{'consumer' if alone else 'producer'}.")
    if rules.producer and resources.groups and not rules.consumer:
        raise ConfigError("--group cannot be combined with --producer, unless --consumer is given, too.")
    for hosts, principals, word in (
        (rules.allowed_hosts, rules.allowed, "allow"),
        (rules.denied_hosts, rules.denied, "deny"),
    ):
        if hosts and not principals:
            raise ConfigError(f"--{word}-host needs --{word}-principal.")


def _principal(text: str) -> str:
    text = text.strip()
    if not is_principal(text):
        raise ConfigError(f"A principal has the form TYPE:NAME, such as User:alice, not {text!r}.")
    return text


def _operation(text: str) -> Operation:
    """Return an operation in any spelling: DescribeConfigs, describe-configs, DESCRIBE_CONFIGS."""
    plain = text.replace("-", "").replace("_", "").lower()
    for operation in Operation:
        if operation is not Operation.ANY and operation.name.replace("_", "").lower() == plain:
            return operation
    known = ", ".join(shown(known_operation) for known_operation in Operation if known_operation is not Operation.ANY)
    raise ConfigError(f"Unknown operation {text!r}. The operations: {known}.")


def shown(value: Operation | ResourceType | PatternType | Permission) -> str:
    """Return a value as users write it."""
    return value.name.lower().replace("_", "-")
