"""The configs of a topic, a group or a broker as admins see them: each with its value and the sources that set it."""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.setting import Setting, split_list
from kohort.broker.config.without_effect import NULL_UNLESS_SET


class Source(IntEnum):
    """Source of a setting's value, with its number in DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    """Changed at run time, for this broker."""
    ALL_BROKERS = 3
    """Changed at run time, as the default of all brokers."""
    STARTED_WITH = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Setter(NamedTuple):
    """One source that sets a value."""

    source: Source
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a resource."""

    name: str
    setting: Setting
    setters: list[Setter]
    """The sources that set it, in descending precedence; the first one applies."""

    @property
    def source(self) -> Source:
        """Source of the effective value."""
        return self.setters[0].source

    @property
    def text(self) -> str:
        """Effective value."""
        return self.setters[0].text

    @property
    def described_text(self) -> str | None:
        """Value for DescribeConfigs; None for a secret, and for a default that Kafka derives from other settings."""
        if self.setting.sensitive or (self._has_no_default and self.source is Source.DEFAULT):
            return None
        return self.text

    @property
    def synonyms(self) -> list[Setter]:
        """The sources for DescribeConfigs.

        No broker setting sets the default of a config that only topics or groups have, so that default is no synonym.
        """
        return [
            setter
            for setter in self.setters
            if setter.source is not Source.DEFAULT or (setter.name in SETTINGS and not self._has_no_default)
        ]

    def with_parts(self, text: str) -> str:
        """Return the list with the parts in `text` added (KIP-339); it starts from the effective value."""
        return ",".join(dict.fromkeys([*split_list(self.text), *split_list(text)]))

    def without_parts(self, text: str) -> str:
        """Return the list without the parts in `text`; it starts from the effective value."""
        gone = split_list(text)
        return ",".join(part for part in split_list(self.text) if part not in gone)

    @property
    def _has_no_default(self) -> bool:
        return self.name in NULL_UNLESS_SET
