"""Settings that change while a broker runs, and whose word counts."""

import errno
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.broker import BrokerOptions
from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.dynamic import DynamicConfig
from kohort.broker.config.entries import Setter, Source
from kohort.errors import ConfigError
from kohort.log import FileStore, MemoryStore
from tests.broker.conftest import MakeBroker

NAME = "message.max.bytes"


def test_the_brokers_own_change_precedes_that_for_all_brokers_and_the_start_options() -> None:
    config = DynamicConfig({NAME: "1"})
    config.change(Source.ALL_BROKERS, {NAME: "2"})
    assert config.current.number(NAME) == 2
    config.change(Source.BROKER, {NAME: "3"})
    assert config.current.number(NAME) == 3
    assert config.setters(NAME) == [
        Setter(Source.BROKER, NAME, "3"),
        Setter(Source.ALL_BROKERS, NAME, "2"),
        Setter(Source.STARTED_WITH, NAME, "1"),
        Setter(Source.DEFAULT, NAME, "1048588"),
    ]
    config.change(Source.BROKER, {})
    config.change(Source.ALL_BROKERS, {})
    assert config.current.number(NAME) == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num.partitions": "2"}, "fixed while the broker runs"),
        ({"num.partitions": "2", "group.max.size": "9"}, "group.max.size, num.partitions are fixed"),
        ({NAME: "many"}, "whole number"),
        ({NAME: "-1"}, "between 0 and"),
        ({"message.max.byte": "1"}, "did you mean message.max.bytes"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(changes: dict[str, str], sentence: str) -> None:
    config = DynamicConfig({})
    with pytest.raises(ConfigError, match=sentence):
        config.change(Source.BROKER, changes | {"max.connections": "7"})
    assert config.current.number("max.connections") == SETTINGS["max.connections"].default
    assert config.changed(Source.BROKER) == {}


@pytest.mark.parametrize("source", [Source.BROKER, Source.ALL_BROKERS])
async def test_changed_settings_precede_start_options_after_a_restart(
    start_broker: MakeBroker, tmp_path: Path, source: Source
) -> None:
    options = BrokerOptions(port=0, data=tmp_path / "data", settings={NAME: "5000"})
    first = await start_broker(options)
    first.change_config(source, {NAME: "2000", "log.segment.bytes": "4096"})
    await first.stop()
    again = await start_broker(options)
    assert (again.config.number(NAME), again.rules.max_batch_bytes(again.topics.create("t"))) == (2000, 2000)
    assert again.dynamic_config.setters(NAME)[0] == Setter(source, NAME, "2000")
    again.change_config(source, {})
    await again.stop()
    assert (await start_broker(options)).config.number(NAME) == 5000


async def test_another_broker_keeps_settings_of_its_own(start_broker: MakeBroker, tmp_path: Path) -> None:
    first = await start_broker(BrokerOptions(port=0, data=tmp_path / "data"))
    first.change_config(Source.BROKER, {NAME: "2000"})
    first.change_config(Source.ALL_BROKERS, {"max.connections": "7"})
    await first.stop()
    other = await start_broker(BrokerOptions(port=0, data=tmp_path / "data", node_id=2))
    assert other.config.number(NAME) == SETTINGS[NAME].default
    assert other.config.number("max.connections") == 7


async def test_a_kept_setting_that_is_none_any_more_stops_no_broker(
    start_broker: MakeBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileStore(tmp_path / "data")
    store.keep_configs("broker", "1", {"gone.setting": "1", NAME: "2000", "num.partitions": "3"})
    broker = await start_broker(BrokerOptions(port=0), store)
    assert broker.config.number(NAME) == 2000
    assert dict(broker.dynamic_config.changed(Source.BROKER)) == {NAME: "2000"}
    assert caplog.text.count("a setting that was changed at run time is ignored") == 2


async def test_a_setting_that_cannot_be_kept_is_not_changed(start_broker: MakeBroker) -> None:
    class Full(MemoryStore):
        def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    broker = await start_broker(BrokerOptions(port=0), Full())
    with pytest.raises(OSError, match="No space left"):
        broker.change_config(Source.BROKER, {NAME: "2000"})
    assert broker.config.number(NAME) == SETTINGS[NAME].default
