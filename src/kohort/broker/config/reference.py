"""All settings and configs, in the order of docs/configuration.md."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kohort.broker.config.broker_settings import SECTIONS, SETTINGS
from kohort.broker.config.client_metrics import CLIENT_METRICS_SETTINGS
from kohort.broker.config.groups import BROKER_NAMES as GROUP_DEFAULTS
from kohort.broker.config.groups import GROUP_SETTINGS
from kohort.broker.config.setting import Setting
from kohort.broker.config.topics import BROKER_NAMES as TOPIC_DEFAULTS
from kohort.broker.config.without_effect import IDLE, IDLE_OF_TOPICS, IDLE_TOPIC_NAMES


class ReferenceRow(NamedTuple):
    """One config of topics or groups, and the broker setting that is its default; one of the names may be empty."""

    name: str
    broker_name: str
    setting: Setting


class SettingReference(NamedTuple):
    """The tables of the reference."""

    broker: Mapping[str, Mapping[str, Setting]]
    """Broker settings that have an effect, by section and name."""
    topic: Sequence[ReferenceRow]
    """Topic configs that have an effect."""
    group: Sequence[ReferenceRow]
    client_metrics: Mapping[str, Setting]
    """Configs of client metrics subscriptions."""
    without_effect: Sequence[ReferenceRow]


def setting_reference() -> SettingReference:
    """Return the tables of all settings and configs."""
    topic_names = {broker_name: name for name, broker_name in IDLE_TOPIC_NAMES.items()}
    return SettingReference(
        broker=SECTIONS,
        topic=[
            ReferenceRow(name, broker_name, SETTINGS[broker_name])
            for name, broker_name in sorted(TOPIC_DEFAULTS.items())
            if name not in IDLE_TOPIC_NAMES
        ],
        group=[
            ReferenceRow(name, GROUP_DEFAULTS.get(name, ""), setting)
            for name, setting in sorted(GROUP_SETTINGS.items())
        ],
        client_metrics=CLIENT_METRICS_SETTINGS,
        without_effect=[
            *(ReferenceRow(topic_names.get(name, ""), name, setting) for name, setting in sorted(IDLE.items())),
            *(ReferenceRow(name, "", setting) for name, setting in sorted(IDLE_OF_TOPICS.items())),
        ],
    )
