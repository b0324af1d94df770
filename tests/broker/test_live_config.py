"""Settings that change while a broker runs, and whose word counts."""

import pytest

from kohort.broker.config import SETTINGS
from kohort.broker.live_config import LiveConfig, Setter, Source
from kohort.errors import ConfigError

NAME = "message.max.bytes"


def test_the_brokers_own_change_counts_before_that_for_all_before_what_it_was_started_with() -> None:
    config = LiveConfig({NAME: "1"})
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
    config = LiveConfig({})
    with pytest.raises(ConfigError, match=sentence):
        config.change(Source.BROKER, changes | {"max.connections": "7"})
    assert config.current.number("max.connections") == SETTINGS["max.connections"].default
    assert config.changed(Source.BROKER) == {}
