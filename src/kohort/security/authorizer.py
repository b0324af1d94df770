"""The rules of Kafka's StandardAuthorizer, as a pure function over an immutable set of ACLs.

A super user may do everything. Otherwise a matching ACL that denies wins over any that allows; without a matching ACL,
the operation is denied, unless no ACL at all applies to the resource and `allow.everyone.if.no.acl.found` is set.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from kohort.security.acls import OPERATIONS, WILDCARD, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

_ALL_USERS = "User:*"
_ANY_NAME = "hardcode"
"""Name that no resource has: an operation that is allowed on it is allowed on all. Kafka uses the same name."""
_MOST_DECISIONS = 100_000
"""Number of remembered decisions above which all are forgotten."""
_LONGEST_REMEMBERED = 249
"""Longest name whose decisions are remembered, that of a topic: a request may name what does not exist."""


class Acls:
    """An immutable set of ACLs, indexed for `Authorizer`."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.all: frozenset[Acl] = frozenset(acls)
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._lengths: dict[ResourceType, set[int]] = {}
        """Lengths of the prefixes of each type."""
        for acl in self.all:
            key = (acl.pattern.resource_type, acl.pattern.name)
            if acl.pattern.pattern_type is PatternType.LITERAL:
                self._literal.setdefault(key, []).append(acl)
                continue
            self._lengths.setdefault(acl.pattern.resource_type, set()).add(len(acl.pattern.name))
            self._prefixed.setdefault(key, []).append(acl)

    def found(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the ACLs that the filter finds, sorted."""
        return sorted(acl for acl in self.all if acl_filter.matches(acl))

    def of_type(self, resource_type: ResourceType) -> Iterator[Acl]:
        """Return all ACLs for resources of that type."""
        return (acl for acl in self.all if acl.pattern.resource_type is resource_type)

    def applying_to(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Return the ACLs that apply to one resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())


class Authorizer:
    """Decides by ACLs. Decisions are remembered, because clients repeat the same few requests."""

    def __init__(self, acls: Acls, *, super_users: frozenset[str], allow_if_no_acl: bool) -> None:
        self.acls = acls
        self._super_users = super_users
        self._allow_if_no_acl = allow_if_no_acl
        self._decided: dict[tuple[str, str, Operation, ResourceType, str], bool] = {}

    def allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the principal may do this from the host, an address without a leading slash."""
        if len(name) > _LONGEST_REMEMBERED:
            return self._judge(principal, host, operation, resource_type, name)
        key = (principal, host, operation, resource_type, name)
        known = self._decided.get(key)
        if known is None:
            if len(self._decided) >= _MOST_DECISIONS:
                self._decided.clear()
            known = self._decided[key] = self._judge(principal, host, operation, resource_type, name)
        return known

    def allowed_by_acl(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return as `allowed`, but False for a resource without an ACL, unless the principal is a super user."""
        return self._decide(principal, host, operation, resource_type, name) is True

    def allowed_for_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the principal may do this with any resource of the type that could exist (KIP-679)."""
        if self.allowed(principal, host, operation, resource_type, _ANY_NAME):
            return True
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        allowed: list[Acl] = []
        for acl in self.acls.of_type(resource_type):
            if not _concerns(acl, principal, host) or acl.operation not in (Operation.ALL, operation):
                continue
            if acl.permission is Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern.pattern_type is PatternType.PREFIXED:
                denied_prefixes.add(acl.pattern.name)
            elif acl.pattern.name == WILDCARD:
                return False
            else:
                denied_names.add(acl.pattern.name)
        for acl in allowed:
            name = acl.pattern.name
            literal = acl.pattern.pattern_type is PatternType.LITERAL
            if literal and name == WILDCARD:
                return True
            if literal and name in denied_names:
                continue
            if not any(name[:at] in denied_prefixes for at in range(1, len(name) + 1)):
                return True
        return False

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> list[Operation]:
        """Return the operations that the principal may perform on the resource."""
        return [
            op for op in sorted(OPERATIONS[resource_type]) if self.allowed(principal, host, op, resource_type, name)
        ]

    def _judge(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        decided = self._decide(principal, host, operation, resource_type, name)
        return self._allow_if_no_acl if decided is None else decided

    def _decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool | None:
        """Return the decision by ACLs; None if none applies to the resource."""
        if principal in self._super_users:
            return True
        allowed = found = False
        for acl in self.acls.applying_to(resource_type, name):
            found = True
            if not _concerns(acl, principal, host) or not acl.covers(operation):
                continue
            if acl.permission is Permission.DENY:
                return False
            allowed = True
        return allowed if found else None


def _concerns(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, _ALL_USERS) and (acl.host in (WILDCARD, host) or _same_address(acl.host, host))


def _same_address(one: str, other: str) -> bool:
    """Return whether two texts are one address: Java writes 0:0:0:0:0:0:0:1 where Python writes ::1."""
    if ":" not in one or ":" not in other:
        return False
    try:
        return ip_address(one) == ip_address(other)
    except ValueError:
        return False


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals in `super.users`, separated by semicolons. Raises ValueError with the first invalid one."""
    found = frozenset(part.strip() for part in text.split(";") if part.strip())
    for principal in sorted(found):
        if not is_principal(principal):
            raise ValueError(principal)
    return found


def is_principal(text: str) -> bool:
    """Return whether the text has the form TYPE:NAME."""
    kind, colon, name = text.partition(":")
    return bool(kind and colon and name)
