"""SCRAM credentials by the admin client; with --broker both against Apache Kafka too."""

from __future__ import annotations

import asyncio

import pytest

from kohort import Admin, ConfigError, ErrorCode, KafkaError, blocking
from kohort.client import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.interop.broker import Broker

SHA_256, SHA_512 = ScramCredentialInfo(ScramMechanism.SHA_256), ScramCredentialInfo(ScramMechanism.SHA_512, 8192)


async def described(admin: Admin, user: str, expected: list[ScramCredentialInfo]) -> None:
    """Wait until the user has these credentials. Apache Kafka answers before its brokers know a change."""
    async with asyncio.timeout(20):
        while (await admin.describe_user_scram_credentials()).get(user, []) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_credentials_are_set_described_and_deleted(admin: Admin, fresh: str) -> None:
    await admin.alter_user_scram_credentials(
        UserScramCredentialUpsertion(fresh, info, "secret") for info in (SHA_256, SHA_512)
    )
    await described(admin, fresh, [SHA_256, SHA_512])
    assert await admin.describe_user_scram_credentials([fresh, fresh]) == {fresh: [SHA_256, SHA_512]}
    assert await admin.describe_user_scram_credentials([]) == {}
    await admin.alter_user_scram_credentials([UserScramCredentialDeletion(fresh, ScramMechanism.SHA_512)])
    await described(admin, fresh, [SHA_256])
    await admin.alter_user_scram_credentials([UserScramCredentialDeletion(fresh, ScramMechanism.SHA_256)])
    await described(admin, fresh, [])


async def test_an_unknown_user_is_an_error(admin: Admin, fresh: str) -> None:
    with pytest.raises(KafkaError, match=fresh) as raised:
        await admin.describe_user_scram_credentials([fresh])
    assert raised.value.code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(KafkaError, match=fresh) as raised:
        await admin.alter_user_scram_credentials([UserScramCredentialDeletion(fresh, ScramMechanism.SHA_256)])
    assert raised.value.code is ErrorCode.RESOURCE_NOT_FOUND


@pytest.mark.parametrize(
    ("iterations", "password", "reason"),
    [(4095, "secret", "at least 4096"), (16_385, "secret", "at most 16384"), (4096, "", "cannot be empty")],
)
async def test_a_bad_credential_is_not_sent(
    admin: Admin, fresh: str, iterations: int, password: str, reason: str
) -> None:
    info = ScramCredentialInfo(ScramMechanism.SHA_256, iterations)
    with pytest.raises(ConfigError, match=reason):
        await admin.alter_user_scram_credentials([UserScramCredentialUpsertion(fresh, info, password)])


def test_a_credential_does_not_show_its_password() -> None:
    assert "secret" not in repr(UserScramCredentialUpsertion("alice", SHA_256, "secret"))


def test_the_blocking_admin_has_the_same_methods(any_broker: Broker, fresh: str) -> None:
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(fresh, SHA_256, "secret")])
        admin.alter_user_scram_credentials([UserScramCredentialDeletion(fresh, ScramMechanism.SHA_256)])
