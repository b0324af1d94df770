"""ACLs: created, found by every kind of filter, removed, and rejected. The broker has an authorizer that trusts all."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import Any

from kohort.security import AclFilter, Operation, PatternType, Permission, ResourceType
from kohort.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.wire.messages.describe_acls import DescribeAclsRequest
from tests.interop.conversation.stage import Stage, scene

acls = functools.partial(scene, part="acls")
T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
LITERAL, PREFIXED, MATCH, ANY = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH, PatternType.ANY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALLOW, DENY = Permission.ALLOW, Permission.DENY
NUMBERS = (-128, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 127)
"""Values of the enumerations, known and unknown."""


def creation(name: str, **others: Any) -> AclCreation:
    """A creation; by default alice may read a topic."""
    fields: dict[str, Any] = {
        "resource_type": T,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(resource_name=name, **(fields | others))


def describing(wanted: AclFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def deleting(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


async def create(s: Stage, name: str, *creations: AclCreation, v: int = 3) -> None:
    await s.admin.ask(name, CreateAclsRequest(creations=list(creations)), v)


async def describe(s: Stage, name: str, wanted: DescribeAclsRequest | AclFilter, v: int = 3) -> None:
    await s.admin.ask(name, describing(wanted) if isinstance(wanted, AclFilter) else wanted, v)


async def delete(s: Stage, name: str, *filters: DeleteAclsFilter | AclFilter, v: int = 3) -> None:
    wanted = [deleting(one) if isinstance(one, AclFilter) else one for one in filters]
    await s.admin.ask(name, DeleteAclsRequest(filters=wanted), v)


async def until_told(s: Stage, principal: str, expected: int) -> None:
    """Wait until the principal has so many ACLs: Kafka's brokers know of changes a little later."""
    for _ in range(500):
        answer = await s.admin.quietly(describing(AclFilter(principal=principal)), 3)
        if sum(len(resource.acls) for resource in answer.resources) == expected:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{principal} does not get {expected} ACLs")


@acls
async def acls_found_by_filters(s: Stage) -> None:
    """Filters of every kind."""
    alice, bob = f"User:{s.scene}-alice", f"User:{s.scene}-bob"
    orders, order, other = f"{s.scene}-orders", f"{s.scene}-order", f"{s.scene}-other"
    stored = [
        creation(orders, principal=alice),
        creation(orders, principal=alice, operation=WRITE, host="127.0.0.1"),
        creation(orders, principal=alice, operation=DESCRIBE, permission_type=DENY, host="::1"),
        creation(order, principal=alice, resource_pattern_type=PREFIXED, operation=Operation.ALL),
        creation("*", principal=alice, operation=Operation.DESCRIBE_CONFIGS),
        creation(orders, principal=alice, resource_type=G),
        creation(other, principal=alice, resource_type=X, operation=WRITE),
        creation("kafka-cluster", principal=alice, resource_type=C, operation=Operation.CREATE),
        creation(alice, principal=alice, resource_type=ResourceType.USER, operation=Operation.CREATE_TOKENS),
        creation("t", principal=alice, resource_type=ResourceType.DELEGATION_TOKEN, operation=DESCRIBE),
    ]
    await create(s, "alice's", *stored)
    await create(s, "again", *stored[:2])
    await create(s, "one twice in a request", creation(orders, principal=bob), creation(orders, principal=bob))
    await create(s, "in version 1", creation(other, principal=bob), v=1)
    await until_told(s, alice, len(stored))
    await until_told(s, bob, 2)
    of_alice = AclFilter(principal=alice)
    for name in (None, orders, order, other, "*", "", "kafka-cluster", f"{orders}-2"):
        for pattern in PatternType:
            await describe(s, f"{name} {pattern.name}", replace(of_alice, name=name, pattern_type=pattern))
    for kind in ResourceType:
        await describe(s, f"resources {kind.name}", replace(of_alice, resource_type=kind))
    for operation in Operation:
        await describe(s, f"operation {operation.name}", replace(of_alice, operation=operation))
    for permission in Permission:
        await describe(s, f"permission {permission.name}", replace(of_alice, permission=permission))
    for host in ("*", "127.0.0.1", "::1", "0:0:0:0:0:0:0:1", "", "/127.0.0.1"):
        await describe(s, f"host {host}", replace(of_alice, host=host))
    for principal in (bob, "User:*", "*", "", "alice", f"user:{s.scene}-alice"):
        await describe(s, f"principal {principal}", AclFilter(principal=principal))
    for version in (1, 2):
        await describe(s, f"version {version}", of_alice, version)
    await delete(s, "nothing is found", AclFilter(name=f"{s.scene}-none"))
    await delete(s, "two filters find the same", AclFilter(T, orders, principal=bob), AclFilter(T, orders, ANY, bob))
    await until_told(s, bob, 1)
    await delete(s, "one filter twice", AclFilter(principal=bob), AclFilter(principal=bob), v=1)
    await delete(s, "all that apply", AclFilter(T, orders, MATCH, alice))
    await until_told(s, alice, 5)
    await delete(s, "an operation", replace(of_alice, operation=WRITE), replace(of_alice, name=orders), v=2)
    await until_told(s, alice, 3)
    await describe(s, "what is left", of_alice)
    await delete(s, "no filters")
    await delete(s, "the rest", of_alice)
    await until_told(s, alice, 0)


@acls
async def refused_acls(s: Stage) -> None:
    """Creations that cannot be made, alone and beside one that can."""
    name, principal = f"{s.scene}-topic", f"User:{s.scene}-alice"
    one = functools.partial(creation, principal=principal)
    for number in NUMBERS:
        await create(s, f"resource type {number}", one(name, resource_type=number))
        await create(s, f"pattern type {number}", one(name, resource_pattern_type=number))
        await create(s, f"operation {number}", one(name, operation=number))
        await create(s, f"permission {number}", one(name, permission_type=number))
    await create(s, "no name", one(""))
    await create(s, "a cluster of another name", one("mine", resource_type=C, operation=Operation.CREATE))
    await create(s, "a prefix of clusters", one("kafka", resource_type=C, resource_pattern_type=PREFIXED))
    await create(s, "all clusters", one("*", resource_type=C, operation=Operation.CREATE))
    await create(s, "an operation that clusters do not have", one("kafka-cluster", resource_type=C))
    await create(s, "an operation that groups do not have", one(name, resource_type=G, operation=WRITE))
    await create(s, "a name that no topic has", one("a b/c"))
    await create(s, "a long name", one("n" * 300))
    for wrong in ("", "alice", ":alice", "User:", "User", "a:b:c", " User:alice", f"Group:{s.scene}"):
        await create(s, f"principal {wrong!r}", one(name, principal=wrong))
    for host in ("", "localhost", "10.0.0.0/8", "a b"):
        await create(s, f"host {host!r}", one(name, host=host))
    await create(s, "good, no name, good", one(name), one(""), one(name, operation=WRITE))
    await create(s, "good, then an unknown type", one(name), one(name, resource_type=99))
    await create(s, "good, then any type", one(name), one(name, resource_type=1))
    await create(s, "good, then a match", one(name), one(name, resource_pattern_type=MATCH))
    await create(s, "good, then any operation", one(name), one(name, operation=1))
    await create(s, "no creations")


@acls
async def refused_acl_filters(s: Stage) -> None:
    """Filters with unknown values."""
    good = deleting(AclFilter(principal=f"User:{s.scene}"))
    for number in (-128, -1, 0, 16, 127):
        for which in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
            wanted = describing(AclFilter(principal=f"User:{s.scene}"))
            setattr(wanted, which, number)
            await describe(s, f"{which} {number}", wanted)
            bad = deleting(AclFilter(principal=f"User:{s.scene}"))
            setattr(bad, which, number)
            await delete(s, f"delete {which} {number}", bad)
            await delete(s, f"delete {which} {number} and a good one", good, bad)
