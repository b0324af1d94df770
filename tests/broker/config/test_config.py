"""Settings: what is refused, and that a refusal says what to do."""

import re
from pathlib import Path

import pytest

from kohort.broker.config.broker_config import parse_config, read_settings
from kohort.broker.config.broker_settings import BOUNDS, SECTIONS, SETTINGS
from kohort.broker.config.groups import GROUP_SETTINGS
from kohort.broker.config.setting import as_text
from kohort.broker.config.topics import TOPIC_SETTINGS, check_topic_configs
from kohort.broker.config.without_effect import IDLE
from kohort.errors import ConfigError


def test_defaults_are_kafkas() -> None:
    config = parse_config()
    assert config.number("group.initial.rebalance.delay.ms") == 3_000
    assert config.number("message.max.bytes") == 1_048_588
    assert config.flag("auto.create.topics.enable")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("num.partition", "3", "did you mean num.partitions"),
        ("num.partitions", "many", "whole number"),
        ("num.partitions", "1_000", "whole number"),
        ("num.partitions", "\N{ARABIC-INDIC DIGIT THREE}", "whole number"),
        ("num.partitions", "9" * 5_000, "whole number"),
        ("log.message.timestamp.type", "Never", "must be one of CreateTime, LogAppendTime, not 'Never'"),
        ("log.cleanup.policy", "delete,shred", "must be a list of compact, delete, not 'delete,shred'"),
        ("num.partitions", "0", "between 1 and 100000"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("connections.max.idle.ms", "-1", "between 1 and"),
        ("replica.selector.class", "Mine", "must be one of empty, org.apache"),
        ("zzzzzz", "1", "docs/configuration.md lists all settings"),
    ],
)
def test_a_bad_setting_is_refused_in_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_config({name: text})


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        parse_config({"group.min.session.timeout.ms": "9000", "group.max.session.timeout.ms": "8000"})
    with pytest.raises(ConfigError, match=r"session\.timeout\.ms must be larger than .*heartbeat"):
        parse_config(
            {"group.consumer.max.heartbeat.interval.ms": "50000", "group.consumer.heartbeat.interval.ms": "45000"}
        )


@pytest.mark.parametrize("name", BOUNDS)
def test_defaults_of_consumer_groups_are_within_their_bounds(name: str) -> None:
    low, high = BOUNDS[name]
    default = int(parse_config().values[name])
    with pytest.raises(ConfigError, match=f"{low} .* must not be larger than {name}"):
        parse_config({low: str(default + 1)})
    with pytest.raises(ConfigError, match=f"{name} .* must not be larger than {high}"):
        parse_config({name: str(parse_config().number(high) + 1)})


@pytest.mark.parametrize("name", SETTINGS)
def test_every_default_is_a_value_that_the_setting_itself_would_take(name: str) -> None:
    default = SETTINGS[name].default
    assert parse_config({name: as_text(default)}).values[name] == default


@pytest.mark.parametrize("name", [*SETTINGS, *TOPIC_SETTINGS, *GROUP_SETTINGS])
def test_every_description_is_sentences_with_the_unit(name: str) -> None:
    setting = {**SETTINGS, **TOPIC_SETTINGS, **GROUP_SETTINGS}[name]
    assert re.fullmatch(r"[A-Z0-9].*[^ ]\.", setting.doc)
    # Both are clauses: the page has them in a cell, DescribeConfigs in a sentence.
    assert not setting.kafka.endswith(".")
    assert not setting.no_effect.endswith(".")
    units = {"ms": "in milliseconds", "bytes": "in bytes", "minutes": "in minutes"}
    unit = "in characters" if name == "offset.metadata.max.bytes" else units.get(name.rpartition(".")[2])
    assert unit is None or unit in setting.doc


def test_each_setting_is_in_one_section_or_without_effect() -> None:
    named = [name for section in SECTIONS.values() for name in section] + list(IDLE)
    assert sorted(named) == sorted(SETTINGS)
    assert all(setting.no_effect for setting in IDLE.values())
    assert not any(setting.no_effect for section in SECTIONS.values() for setting in section.values())


def test_a_file_of_settings_is_read_as_kafkas_is(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("# a broker\n\nnum.partitions = 6 \n!old=1\nssl.keystore.key=-----BEGIN\\n\\\n   MII\n")
    assert read_settings(path) == {"num.partitions": "6", "ssl.keystore.key": "-----BEGIN\nMII"}
    with pytest.raises(ConfigError, match="cannot be read"):
        read_settings(tmp_path / "missing")


@pytest.mark.parametrize(
    "configs", [{"cleanup.policy": "shred"}, {"compression.type": "rar"}, {"retention.ms": "-2"}, {"retention": "1"}]
)
def test_a_topic_config_that_cannot_be_honoured_is_refused(configs: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_topic_configs(configs)
    with pytest.raises(ConfigError, match=r"remote.storage.enable must be false: the broker has no tiered storage\.$"):
        check_topic_configs({"remote.storage.enable": "true"})
    for policy in ("", " ", "compact, delete"):
        check_topic_configs({"cleanup.policy": policy})
    check_topic_configs({"cleanup.policy": "compact,delete", "retention.ms": "-1", "compression.type": "producer"})
