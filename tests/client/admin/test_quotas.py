"""Quotas by the admin client; with --broker both against Apache Kafka too."""

from __future__ import annotations

import asyncio

import pytest

from kohort import Admin, ConfigError, ErrorCode, KafkaError, blocking
from kohort.client import ClientQuotaEntity, ClientQuotaFilter, QuotaName
from tests.interop.broker import Broker

DEFAULT, ANY = QuotaName.DEFAULT, QuotaName.ANY


async def described(admin: Admin, user: str, expected: dict[ClientQuotaEntity, dict[str, float]]) -> None:
    """Wait until the user has these quotas. Apache Kafka answers before its brokers know a change."""
    async with asyncio.timeout(20):
        while await admin.describe_client_quotas(ClientQuotaFilter(user=user)) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_quotas_are_set_found_and_removed(admin: Admin, fresh: str) -> None:
    alone, pair = ClientQuotaEntity(user=fresh), ClientQuotaEntity(user=fresh, client_id="app")
    rest = ClientQuotaEntity(user=fresh, client_id=DEFAULT)
    quotas = {"consumer_byte_rate": 2e9, "producer_byte_rate": 1e9}
    await admin.alter_client_quotas({alone: quotas, pair: {"request_percentage": 12.5}, rest: quotas})
    await described(admin, fresh, {alone: quotas, pair: {"request_percentage": 12.5}, rest: quotas})
    for quota_filter, found in (
        (ClientQuotaFilter(user=fresh, strict=True), {alone}),
        (ClientQuotaFilter(user=fresh, client_id=ANY), {pair, rest}),
        (ClientQuotaFilter(user=fresh, client_id=DEFAULT), {rest}),
        (ClientQuotaFilter(user=fresh, client_id="app"), {pair}),
        (ClientQuotaFilter(user=fresh, client_id="other"), set()),
    ):
        assert set(await admin.describe_client_quotas(quota_filter)) == found, quota_filter
    assert {alone, pair, rest} <= set(await admin.describe_client_quotas())
    await admin.alter_client_quotas({alone: {"producer_byte_rate": None}}, validate_only=True)
    await admin.alter_client_quotas({alone: {"consumer_byte_rate": None}, pair: {"request_percentage": None}})
    await described(admin, fresh, {alone: {"producer_byte_rate": 1e9}, rest: quotas})
    await admin.alter_client_quotas({alone: dict.fromkeys(quotas), rest: dict.fromkeys(quotas)})
    await described(admin, fresh, {})


async def test_an_error_names_the_entity_and_others_are_changed(admin: Admin, fresh: str) -> None:
    good, bad = ClientQuotaEntity(user=fresh), ClientQuotaEntity(user=fresh, client_id=DEFAULT)
    with pytest.raises(KafkaError, match=f"user {fresh}, client-id <default>: ") as raised:
        await admin.alter_client_quotas({bad: {"producer_byte_rate": -1}, good: {"producer_byte_rate": 1e9}})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    await described(admin, fresh, {good: {"producer_byte_rate": 1e9}})
    await admin.alter_client_quotas({good: {"producer_byte_rate": None}})


async def test_an_entity_without_parts_or_with_any_name_is_not_sent(admin: Admin) -> None:
    with pytest.raises(ConfigError, match="needs a user"):
        await admin.alter_client_quotas({ClientQuotaEntity(): {"producer_byte_rate": 1}})
    with pytest.raises(ConfigError, match="only for filters"):
        await admin.alter_client_quotas({ClientQuotaEntity(user=ANY): {"producer_byte_rate": 1}})
    await admin.alter_client_quotas({})


def test_the_blocking_admin_has_the_same_methods(any_broker: Broker, fresh: str) -> None:
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        entity = ClientQuotaEntity(client_id=fresh)
        admin.alter_client_quotas({entity: {"producer_byte_rate": 1e9}}, validate_only=True)
        assert admin.describe_client_quotas(ClientQuotaFilter(client_id=fresh)) == {}
