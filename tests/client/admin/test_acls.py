"""ACLs by the admin client, against the broker and Apache Kafka, each with an authorizer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kohort import Admin, ErrorCode, KafkaError, blocking
from kohort.client import (
    Acl,
    AclFilter,
    AclsFailedError,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.interop.broker import Broker


@pytest.fixture
async def authorized(any_authorized: Broker) -> AsyncIterator[Admin]:
    """An admin client of a broker with an authorizer, which takes everybody for a super user."""
    async with Admin(bootstrap_servers=any_authorized.bootstrap) as made:
        yield made


def acl(name: str, operation: Operation = Operation.READ, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(ResourcePattern(ResourceType.TOPIC, name, pattern), "User:alice", "*", operation, Permission.ALLOW)


async def described(admin: Admin, wanted: AclFilter, expected: list[Acl]) -> None:
    """Wait until the filter finds these. Apache Kafka answers before its brokers know a change."""
    async with asyncio.timeout(20):
        while await admin.describe_acls(wanted) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_acls_are_created_described_and_deleted(authorized: Admin, fresh: str) -> None:
    read, write, prefixed = acl(fresh), acl(fresh, Operation.WRITE), acl(fresh[:-1], pattern=PatternType.PREFIXED)
    await authorized.create_acls([read, write, prefixed, read])
    await authorized.create_acls([read])
    await described(authorized, AclFilter(name=fresh), [read, write])
    await described(authorized, AclFilter(name=fresh, pattern_type=PatternType.MATCH), sorted([read, write, prefixed]))
    assert {read, write, prefixed} <= set(await authorized.describe_acls())
    writing = AclFilter(ResourceType.TOPIC, fresh, operation=Operation.WRITE)
    rest = AclFilter(ResourceType.TOPIC, fresh, PatternType.MATCH)
    nothing = AclFilter(ResourceType.GROUP, fresh)
    assert await authorized.delete_acls([writing, writing, nothing]) == {writing: [write], nothing: []}
    assert await authorized.delete_acls([rest]) == {rest: sorted([read, prefixed])}
    await described(authorized, rest, [])


async def test_nothing_to_do_is_not_asked(authorized: Admin) -> None:
    await authorized.create_acls([])
    assert await authorized.delete_acls([]) == {}


async def test_each_rejected_acl_has_its_error_and_the_others_are_created(authorized: Admin, fresh: str) -> None:
    good, bad = acl(fresh), acl("")
    with pytest.raises(AclsFailedError) as raised:
        await authorized.create_acls([bad, good])
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    assert {one: error.code for one, error in raised.value.errors.items()} == {bad: ErrorCode.INVALID_REQUEST}
    await described(authorized, AclFilter(name=fresh), [good])


async def test_without_an_authorizer_the_error_says_so(admin: Admin, fresh: str) -> None:
    with pytest.raises(KafkaError, match="No Authorizer") as raised:
        await admin.describe_acls()
    assert raised.value.code is ErrorCode.SECURITY_DISABLED
    with pytest.raises(AclsFailedError, match="No Authorizer") as failed:
        await admin.create_acls([acl(fresh)])
    assert failed.value.code is ErrorCode.SECURITY_DISABLED
    with pytest.raises(AclsFailedError, match="No Authorizer") as failed:
        await admin.delete_acls([AclFilter()])
    assert list(failed.value.errors) == [AclFilter()]


def test_the_blocking_admin_has_the_same_methods(any_authorized: Broker, fresh: str) -> None:
    with blocking.Admin(bootstrap_servers=any_authorized.bootstrap) as admin:
        admin.create_acls([acl(fresh)])
        wanted = AclFilter(name=fresh)
        assert admin.delete_acls([wanted]) == {wanted: [acl(fresh)]}
        assert acl(fresh) not in admin.describe_acls(AclFilter(name=f"{fresh}-other"))
