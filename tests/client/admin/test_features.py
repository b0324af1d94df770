"""Features by the admin client; with --broker both against Apache Kafka too."""

from __future__ import annotations

import asyncio

import pytest

from kohort import Admin, ConfigError, ErrorCode, FeatureUpdate, KafkaError, SupportedVersionRange, UpgradeType
from tests.interop.broker import Broker

FEATURE = "transaction.version"


async def becomes(admin: Admin, level: int) -> int:
    """Wait until the broker reports the level, and return the epoch. Apache Kafka answers before its brokers know."""
    async with asyncio.timeout(20):
        while True:
            found = await admin.describe_features()
            if found.finalized_features.get(FEATURE, 0) == level:
                assert found.finalized_features_epoch is not None
                return found.finalized_features_epoch
            await asyncio.sleep(0.02)


async def test_features_are_described_and_updated(admin: Admin) -> None:
    found = await admin.describe_features()
    assert found.supported_features[FEATURE] == SupportedVersionRange(0, 2)
    before = await becomes(admin, 2)
    lower, higher = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE), FeatureUpdate(2)
    await admin.update_features({FEATURE: lower}, validate_only=True)
    with pytest.raises(KafkaError) as refused:
        await admin.update_features({FEATURE: FeatureUpdate(1)})
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    with pytest.raises(KafkaError) as refused:
        await admin.update_features({FEATURE: lower, "transactions": FeatureUpdate(1)})
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert (await admin.describe_features()).finalized_features[FEATURE] == 2
    try:
        await admin.update_features({FEATURE: lower})
        assert await becomes(admin, 1) > before
    finally:
        await admin.update_features({FEATURE: higher})
    await becomes(admin, 2)


async def test_an_update_of_nothing_is_an_error(any_broker: Broker) -> None:
    async with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        with pytest.raises(ConfigError):
            await admin.update_features({})
