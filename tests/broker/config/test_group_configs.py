"""Configs of groups: who may set what, that it lasts, and what counts when a broker's bounds change."""

from pathlib import Path

import pytest

from kohort.broker import BrokerOptions
from kohort.broker.config.broker_config import parse_config
from kohort.broker.config.groups import check_group_configs, group_number
from kohort.errors import ConfigError, ErrorCode
from tests.broker.apis.test_alter_configs import DELETE, GROUP, SET, alter, replace, resource
from tests.broker.conftest import MakeBroker
from tests.broker.peer import Peer, talking_to

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


async def test_a_groups_configs_survive_a_restart(start_broker: MakeBroker, tmp_path: Path) -> None:
    first = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    async with talking_to(first) as peer:
        assert await alter(peer, resource(GROUP, "g", (SESSION, SET, "50000"), (INTERVAL, SET, "6000"))) == [0]
        assert await alter(peer, resource(GROUP, "g", (INTERVAL, DELETE, None)), resource(GROUP, "h")) == [0, 0]
    await first.stop()
    second = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    assert second.group_configs.of("g") == {SESSION: "50000"}
    assert list(second.group_configs.all()) == ["g"]


async def test_the_older_request_replaces_all_that_a_group_sets(peer: Peer) -> None:
    assert await replace(peer, GROUP, "g", consumer_session_timeout_ms="50000") == ErrorCode.NONE
    assert await replace(peer, GROUP, "g", consumer_heartbeat_interval_ms="6000") == ErrorCode.NONE
    assert await replace(peer, GROUP, "g", consumer_heartbeat_interval_ms="4999") == ErrorCode.INVALID_CONFIG


async def test_checking_only_changes_nothing(peer: Peer, start_broker: MakeBroker) -> None:
    broker = await start_broker(BrokerOptions(port=0))
    async with talking_to(broker) as other:
        assert await alter(other, resource(GROUP, "g", (SESSION, SET, "50000")), validate_only=True) == [0]
        assert await alter(other, resource(GROUP, "g", (SESSION, SET, "70000")), validate_only=True) != [0]
    assert broker.group_configs.all() == {}


def test_a_session_must_outlast_a_heartbeat() -> None:
    wide = parse_config(
        {"group.consumer.min.session.timeout.ms": "1", "group.consumer.max.heartbeat.interval.ms": "60000"}
    )
    check_group_configs({SESSION: "6000"}, wide)
    with pytest.raises(ConfigError, match="must be larger than"):
        check_group_configs({SESSION: "5000"}, wide)
    with pytest.raises(ConfigError, match="must be larger than"):
        check_group_configs({INTERVAL: "45000"}, wide)


def test_a_broker_with_narrower_bounds_takes_the_nearest() -> None:
    kept = {SESSION: "60000", INTERVAL: "15000"}
    narrow = parse_config(
        {"group.consumer.max.session.timeout.ms": "50000", "group.consumer.max.heartbeat.interval.ms": "6000"}
    )
    assert [group_number(name, kept, narrow) for name in (SESSION, INTERVAL)] == [50_000, 6_000]
    assert group_number(SESSION, {}, narrow) == 45_000
