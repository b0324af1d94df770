"""The configs of topics: Kafka's names, the values that this broker supports, and their defaults."""

from collections.abc import Mapping

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.dynamic import DynamicConfig
from kohort.broker.config.entries import ConfigEntry, Setter, Source
from kohort.broker.config.setting import Setting, as_text, known_setting
from kohort.broker.config.without_effect import IDLE_OF_TOPICS, IDLE_TOPIC_NAMES

BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    **IDLE_TOPIC_NAMES,
}
"""Broker setting of each topic config, by the config's name; its current value is the topic's default."""

_PRODUCER_EXPIRATION = "producer.id.expiration.ms"
"""A broker setting that the log needs and that is no topic config."""

TOPIC_SETTINGS: Mapping[str, Setting] = {
    **{name: SETTINGS[broker_name] for name, broker_name in BROKER_NAMES.items()},
    **IDLE_OF_TOPICS,
}


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ConfigError for a topic config that is unknown or has a value that this broker does not support."""
    for name, text in configs.items():
        known_setting(name, TOPIC_SETTINGS).parse(name, text)


def topic_entries(configs: Mapping[str, str], live: DynamicConfig) -> list[ConfigEntry]:
    """Return all configs of a topic that sets these itself."""
    return [ConfigEntry(name, setting, _setters(name, configs, live)) for name, setting in TOPIC_SETTINGS.items()]


def _setters(name: str, configs: Mapping[str, str], live: DynamicConfig) -> list[Setter]:
    own = configs.get(name)
    if name in IDLE_OF_TOPICS:
        default = [Setter(Source.DEFAULT, name, as_text(IDLE_OF_TOPICS[name].default))]
    else:
        default = live.setters(BROKER_NAMES[name])
    return default if own is None else [Setter(Source.TOPIC, name, own), *default]


def store_defaults(config: BrokerConfig) -> dict[str, str]:
    """Return the log store's defaults for topics without configs of their own."""
    names = {**BROKER_NAMES, _PRODUCER_EXPIRATION: _PRODUCER_EXPIRATION}
    return {name: as_text(config.values[broker_name]) for name, broker_name in names.items()}
