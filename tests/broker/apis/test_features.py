"""The level of transaction.version: where it comes from, who sees it, and what a change of it survives."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.log import MemoryStore
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.broker.conftest import QUICK, MakeBroker
from tests.broker.peer import Peer, talking_to

FEATURE = "transaction.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
BAD = ErrorCode.INVALID_UPDATE_VERSION


def options(path: Path | None = None, level: int | None = None, node_id: int = 1) -> BrokerOptions:
    settings = QUICK if level is None else {**QUICK, FEATURE: str(level)}
    return BrokerOptions(port=0, data=path, shared=node_id > 1 or path is not None, node_id=node_id, settings=settings)


async def features(peer: Peer) -> tuple[int, int]:
    """The finalized level and its epoch."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await peer.ask(request, 4, ApiVersionsResponse)
    assert [(each.name, each.min_version, each.max_version) for each in answer.supported_features] == [(FEATURE, 0, 2)]
    levels = [each.max_version_level for each in answer.finalized_features if each.name == FEATURE]
    return levels[0] if levels else 0, answer.finalized_features_epoch


async def update(
    peer: Peer, levels: Mapping[str, int], upgrade_type: int = UPGRADE, *, validate_only: bool = False
) -> int:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    answer = await peer.ask(request, 2, UpdateFeaturesResponse)
    assert bool(answer.error_code) == bool(answer.error_message)
    return answer.error_code


async def test_the_setting_is_the_level_of_a_new_cluster_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Broker(options(tmp_path, 1)) as broker, talking_to(broker) as peer:
        assert await features(peer) == (1, 0)
        assert await update(peer, {FEATURE: 2}) == ErrorCode.NONE
        assert await features(peer) == (2, 1)
    assert "has no effect" not in caplog.text
    with caplog.at_level(logging.WARNING):
        async with Broker(options(tmp_path, 1)) as broker, talking_to(broker) as peer:
            assert await features(peer) == (2, 1)
    assert f"The setting {FEATURE}=1 has no effect: the cluster's level is 2." in caplog.text


async def test_every_change_has_an_epoch_of_its_own(broker: Broker) -> None:
    # Clients keep the levels with the highest epoch, from whichever broker.
    async with talking_to(broker) as peer:
        for upgrade_type, level, epoch in ((SAFE, 1, 1), (UNSAFE, 0, 2), (UPGRADE, 0, 2), (UPGRADE, 2, 3)):
            assert await update(peer, {FEATURE: level}, upgrade_type) == ErrorCode.NONE
            assert await features(peer) == (level, epoch)


@pytest.mark.parametrize(
    ("levels", "upgrade_type"),
    [
        ({FEATURE: 3}, UPGRADE),
        ({FEATURE: -1}, UNSAFE),
        ({FEATURE: 0}, UPGRADE),
        ({FEATURE: 2}, SAFE),
        ({FEATURE: 2}, 0),
        ({FEATURE: 2}, 4),
        ({"transactions": 1}, UPGRADE),
        ({"transactions": 0}, UPGRADE),
        ({"transactions": 1, FEATURE: 2}, UPGRADE),
        ({FEATURE: 2, "transactions": 1}, UPGRADE),
    ],
)
async def test_an_update_that_cannot_be_made_changes_nothing(
    start_broker: MakeBroker, levels: Mapping[str, int], upgrade_type: int
) -> None:
    async with talking_to(await start_broker(options(level=1))) as peer:
        assert await update(peer, levels, upgrade_type) == BAD
        assert await update(peer, levels, upgrade_type, validate_only=True) == BAD
        assert await features(peer) == (1, 0)


async def test_a_validated_update_is_not_made(broker: Broker) -> None:
    async with talking_to(broker) as peer:
        assert await update(peer, {FEATURE: 1}, SAFE, validate_only=True) == ErrorCode.NONE
        assert await features(peer) == (2, 0)


async def test_a_full_disk_is_an_error_and_changes_nothing(
    start_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    broker = await start_broker(options(), store)

    def full(kind: str, name: str, configs: Mapping[str, str]) -> None:
        raise OSError(28, "No space left on device")

    async with talking_to(broker) as peer:
        with monkeypatch.context() as patch:
            patch.setattr(store, "keep_configs", full)
            assert await update(peer, {FEATURE: 1}, SAFE) == ErrorCode.KAFKA_STORAGE_ERROR
        assert await features(peer) == (2, 0)


async def test_a_broker_starts_on_a_full_disk(start_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    def full(kind: str, name: str, configs: Mapping[str, str]) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store, "keep_configs", full)
        broker = await start_broker(options(level=1), store)
    async with talking_to(broker) as peer:
        assert await features(peer) == (1, 0)
        assert await update(peer, {FEATURE: 2}) == ErrorCode.NONE
        assert await features(peer) == (2, 1)


async def test_all_brokers_of_a_cluster_have_one_level(tmp_path: Path) -> None:
    async with (
        Broker(options(tmp_path, 1, 1)) as one,
        Broker(options(tmp_path, 2, 2)) as other,
        talking_to(one) as peer,
        talking_to(other) as second,
    ):
        assert await features(second) == (1, 0)  # the first broker made the cluster
        assert await update(peer, {FEATURE: 2}) == ErrorCode.NONE
        # It decides by the newest level, although it may not have followed yet.
        assert await update(second, {FEATURE: 1}, UPGRADE) == BAD
        assert await update(second, {FEATURE: 1}, SAFE) == ErrorCode.NONE
        assert await features(second) == (1, 2)
        async with asyncio.timeout(60):
            while await features(peer) != (1, 2):  # noqa: ASYNC110  # it follows the shared directory
                await asyncio.sleep(0.01)
