"""The rules of ACLs: what allows, what denies, what implies what."""

from collections.abc import Iterable

import pytest

from kohort.security import (
    Acl,
    AclFilter,
    Acls,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    parse_super_users,
)
from kohort.security import ResourceType as Type

ALICE, HOST = "User:alice", "10.0.0.1"


def acl(
    name: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
    *,
    prefixed: bool = False,
    principal: str = ALICE,
    host: str = "*",
    resource_type: Type = Type.TOPIC,
) -> Acl:
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(ResourcePattern(resource_type, name, kind), principal, host, operation, permission)


def may(acls: Iterable[Acl], operation: Operation, name: str = "orders", **more: bool) -> bool:
    authorizer = Authorizer(Acls(acls), super_users=frozenset({"User:root"}), allow_if_no_acl=more.get("open", False))
    return authorizer.allowed(ALICE, HOST, operation, Type.TOPIC, name)


@pytest.mark.parametrize(
    "allowing",
    [
        acl("orders", Operation.READ),
        acl("*", Operation.READ),
        acl("ord", Operation.READ, prefixed=True),
        acl("orders", Operation.READ, prefixed=True),
        acl("orders", Operation.ALL),
        acl("orders", Operation.READ, principal="User:*"),
        acl("orders", Operation.READ, host=HOST),
    ],
)
def test_an_acl_that_matches_allows(allowing: Acl) -> None:
    assert may([allowing], Operation.READ)


@pytest.mark.parametrize(
    "other",
    [
        acl("order", Operation.READ),
        acl("orders2", Operation.READ, prefixed=True),
        acl("ord", Operation.READ),
        acl("orders", Operation.WRITE),
        acl("orders", Operation.READ, principal="User:bob"),
        acl("orders", Operation.READ, host="10.0.0.2"),
        acl("orders", Operation.READ, resource_type=Type.GROUP),
    ],
)
def test_an_acl_for_something_else_allows_nothing(other: Acl) -> None:
    assert not may([other], Operation.READ)


@pytest.mark.parametrize(
    "denied", [acl("*", Operation.ALL, Permission.DENY), acl("o", Operation.READ, Permission.DENY, prefixed=True)]
)
def test_a_denial_wins_over_any_permission(denied: Acl) -> None:
    assert not may([acl("orders", Operation.READ), denied], Operation.READ)


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_permission_implies_describe_and_denial_does_not(operation: Operation) -> None:
    assert may([acl("orders", operation)], Operation.DESCRIBE)
    both = [acl("orders", Operation.DESCRIBE), acl("orders", operation, Permission.DENY)]
    assert may(both, Operation.DESCRIBE)


def test_alter_configs_implies_describe_configs_and_no_more() -> None:
    assert may([acl("orders", Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS)
    assert not may([acl("orders", Operation.ALTER_CONFIGS)], Operation.DESCRIBE)
    assert not may([acl("orders", Operation.CREATE)], Operation.DESCRIBE)


def test_without_an_acl_for_the_resource_the_setting_decides() -> None:
    others = [acl("bills", Operation.READ, principal="User:bob")]
    assert not may(others, Operation.READ)
    assert may(others, Operation.READ, open=True)
    # An ACL of another user is one for the resource, too.
    assert not may([acl("orders", Operation.READ, principal="User:bob")], Operation.WRITE, open=True)


def test_a_super_user_may_do_everything() -> None:
    authorizer = Authorizer(
        Acls([acl("*", Operation.ALL, Permission.DENY, principal="User:*")]),
        super_users=parse_super_users("User:root; User:admin"),
        allow_if_no_acl=False,
    )
    assert authorizer.allowed("User:admin", HOST, Operation.DELETE, Type.TOPIC, "orders")
    assert not authorizer.allowed(ALICE, HOST, Operation.DELETE, Type.TOPIC, "orders")


@pytest.mark.parametrize("text", ["root", "User:", ":root", "User:a;b"])
def test_a_super_user_has_a_type(text: str) -> None:
    with pytest.raises(ValueError):
        parse_super_users(text)


def test_names_that_are_longer_than_any_topic_are_not_remembered() -> None:
    authorizer = Authorizer(Acls(), super_users=frozenset(), allow_if_no_acl=True)
    for name in ("t" * 249, "t" * 250, "t" * 30_000):
        for _ in range(2):
            assert authorizer.allowed("User:alice", "10.0.0.1", Operation.READ, Type.TOPIC, name)
    assert [len(name) for *_, name in authorizer._decided] == [249]


def test_two_notations_of_an_ipv6_address_are_one_host() -> None:
    authorizer = Authorizer(
        Acls([acl("orders", Operation.READ, host="0:0:0:0:0:0:0:1")]), super_users=frozenset(), allow_if_no_acl=False
    )
    assert authorizer.allowed(ALICE, "::1", Operation.READ, Type.TOPIC, "orders")
    assert not authorizer.allowed(ALICE, "::2", Operation.READ, Type.TOPIC, "orders")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("orders", Operation.WRITE)], True),
        ([acl("orders", Operation.READ)], False),
        ([acl("orders", Operation.WRITE), acl("orders", Operation.WRITE, Permission.DENY)], False),
        ([acl("orders", Operation.WRITE), acl("ord", Operation.WRITE, Permission.DENY, prefixed=True)], False),
        ([acl("ord", Operation.WRITE, prefixed=True), acl("orders", Operation.WRITE, Permission.DENY)], True),
        ([acl("*", Operation.ALL), acl("orders", Operation.ALL, Permission.DENY)], True),
        ([acl("orders", Operation.WRITE), acl("*", Operation.ALL, Permission.DENY)], False),
    ],
)
def test_whether_any_topic_may_be_written(acls: list[Acl], expected: bool) -> None:
    authorizer = Authorizer(Acls(acls), super_users=frozenset(), allow_if_no_acl=False)
    assert authorizer.allowed_for_any(ALICE, HOST, Operation.WRITE, Type.TOPIC) == expected


LITERAL, ANY_NAME, PREFIX = (
    acl("orders", Operation.READ),
    acl("*", Operation.READ),
    acl("ord", Operation.READ, prefixed=True),
)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {LITERAL, ANY_NAME, PREFIX}),
        (AclFilter(Type.GROUP), set()),
        (AclFilter(name="orders", pattern_type=PatternType.ANY), {LITERAL}),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), {LITERAL, ANY_NAME, PREFIX}),
        (AclFilter(name="ordinary", pattern_type=PatternType.MATCH), {ANY_NAME, PREFIX}),
        (AclFilter(name="ord", pattern_type=PatternType.LITERAL), set()),
        (AclFilter(name="ord", pattern_type=PatternType.PREFIXED), {PREFIX}),
        (AclFilter(pattern_type=PatternType.PREFIXED), {PREFIX}),
        (AclFilter(principal="User:*"), set()),
        (AclFilter(host="*", operation=Operation.READ, permission=Permission.ALLOW), {LITERAL, ANY_NAME, PREFIX}),
        (AclFilter(permission=Permission.DENY), set()),
    ],
)
def test_a_filter_finds_acls_as_kafkas_does(wanted: AclFilter, found: set[Acl]) -> None:
    assert set(Acls([LITERAL, ANY_NAME, PREFIX]).found(wanted)) == found
