"""The broker's settings as they are now: what it was started with and, over that, what admins changed since (KIP-226).

Changes are kept in the log store, as topics' configs are, and count more than what a later start says (KIP-226).
"""

import logging
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from kohort.broker.config import SETTINGS, BrokerConfig, parse_config
from kohort.broker.setting import as_text, known_setting
from kohort.errors import ConfigError

log = logging.getLogger("kohort.broker")


class Source(IntEnum):
    """Where a value comes from, as DescribeConfigs says it."""

    TOPIC = 1
    BROKER = 2
    """Changed at run time, on this broker."""
    ALL_BROKERS = 3
    """Changed at run time, as the default of all brokers."""
    STARTED_WITH = 4
    DEFAULT = 5
    GROUP = 8


class Setter(NamedTuple):
    """One place that sets a value."""

    source: Source
    name: str
    text: str


class LiveConfig:
    """`current` is replaced as a whole by every change."""

    def __init__(self, started_with: Mapping[str, str]) -> None:
        """ConfigError for a setting that is unknown or bad."""
        self._started_with = dict(started_with)
        self._changed: dict[Source, Mapping[str, str]] = {Source.BROKER: {}, Source.ALL_BROKERS: {}}
        """What counts more comes first."""
        self.current: BrokerConfig = parse_config(started_with)

    def changed(self, source: Source) -> Mapping[str, str]:
        """What was changed at run time, on this broker or for all of them."""
        return self._changed[source]

    def check(self, source: Source, configs: Mapping[str, str]) -> BrokerConfig:
        """The settings as they would be were `configs` all that is changed there. Raises ConfigError."""
        fixed = [name for name in configs if not known_setting(name, SETTINGS).live]
        if fixed:
            verb = "is" if len(fixed) == 1 else "are"
            raise ConfigError(f"{', '.join(sorted(fixed))} {verb} fixed while the broker runs: restart it with --set.")
        changed = self._changed | {source: configs}
        return parse_config(self._started_with | dict(changed[Source.ALL_BROKERS]) | dict(changed[Source.BROKER]))

    def change(self, source: Source, configs: Mapping[str, str]) -> None:
        """Make `configs` all that is changed there. Raises ConfigError, and then nothing is changed."""
        self.current = self.check(source, configs)
        self._changed[source] = dict(configs)

    def restore(self, source: Source, configs: Mapping[str, str]) -> None:
        """Have what an earlier process kept; what does not fit this one is left out and reported."""
        kept: dict[str, str] = {}
        for name, text in configs.items():
            try:
                self.change(source, {**kept, name: text})
            except ConfigError as error:
                log.warning("a setting that was changed at run time does not count any more: %s", error)
            else:
                kept[name] = text

    def setters(self, name: str) -> list[Setter]:
        """Who sets it, the one that counts first; the default comes last."""
        layers = [
            (Source.BROKER, self._changed[Source.BROKER]),
            (Source.ALL_BROKERS, self._changed[Source.ALL_BROKERS]),
        ]
        layers.append((Source.STARTED_WITH, self._started_with))
        found = [Setter(source, name, layer[name]) for source, layer in layers if name in layer]
        return [*found, Setter(Source.DEFAULT, name, as_text(SETTINGS[name].default))]
