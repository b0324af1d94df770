"""The broker's current settings: those it was started with, overridden by later changes of admins (KIP-226).

Changes are kept in the log store, as topics' configs are, and override the settings of a later start (KIP-226).
"""

import logging
from collections.abc import Mapping

from kohort.broker.config.broker_config import BrokerConfig, parse_config
from kohort.broker.config.broker_settings import FACTS, SETTINGS
from kohort.broker.config.entries import ConfigEntry, Setter, Source
from kohort.broker.config.setting import as_text, known_setting
from kohort.broker.config.without_effect import ABSENT_UNLESS_SET
from kohort.errors import ConfigError

log = logging.getLogger("kohort.broker")


class DynamicConfig:
    """Current settings in `current`, which every change replaces as a whole."""

    def __init__(self, started_with: Mapping[str, str]) -> None:
        """Raise ConfigError for a setting that is unknown or invalid."""
        self._started_with = dict(started_with)
        self._changed: dict[Source, Mapping[str, str]] = {Source.BROKER: {}, Source.ALL_BROKERS: {}}
        """Settings changed at run time, by source in descending precedence."""
        self.current: BrokerConfig = parse_config(started_with)

    def changed(self, source: Source) -> Mapping[str, str]:
        """Return the settings that were changed at run time, for this broker or for all brokers."""
        return self._changed[source]

    def check(self, source: Source, configs: Mapping[str, str]) -> BrokerConfig:
        """Return the settings that would result if `configs` replaced all changes of `source`. Raise ConfigError."""
        fixed = [name for name in configs if not known_setting(name, SETTINGS).live]
        if fixed:
            verb = "is" if len(fixed) == 1 else "are"
            raise ConfigError(f"{', '.join(sorted(fixed))} {verb} fixed while the broker runs: restart it with --set.")
        changed = self._changed | {source: configs}
        return parse_config(self._started_with | dict(changed[Source.ALL_BROKERS]) | dict(changed[Source.BROKER]))

    def change(self, source: Source, configs: Mapping[str, str]) -> None:
        """Replace all changes of `source` with `configs`. Raise ConfigError; in that case nothing has changed."""
        self.current = self.check(source, configs)
        self._changed[source] = dict(configs)

    def restore(self, source: Source, configs: Mapping[str, str]) -> None:
        """Apply changes that an earlier process or another broker stored; skip and log those that are invalid here."""
        kept: dict[str, str] = {}
        self.change(source, kept)  # another broker may have deleted all changes
        for name, text in configs.items():
            try:
                self.change(source, {**kept, name: text})
            except ConfigError as error:
                log.warning("a setting that was changed at run time is ignored: %s", error)
            else:
                kept[name] = text

    def setters(self, name: str) -> list[Setter]:
        """Return the sources that set `name`, in descending precedence; the default is last."""
        layers = [
            (Source.BROKER, self._changed[Source.BROKER]),
            (Source.ALL_BROKERS, self._changed[Source.ALL_BROKERS]),
        ]
        layers.append((Source.STARTED_WITH, self._started_with))
        found = [Setter(source, name, layer[name]) for source, layer in layers if name in layer]
        return [*found, Setter(Source.DEFAULT, name, as_text(SETTINGS[name].default))]

    def entries(self) -> list[ConfigEntry]:
        """Return all settings of this broker."""
        return [ConfigEntry(name, setting, self.setters(name)) for name, setting in SETTINGS.items()]

    def described(self, facts: Mapping[str, str]) -> list[ConfigEntry]:
        """Return the entries that DescribeConfigs returns for this broker. `facts` has the values of all FACTS."""
        entries = [
            ConfigEntry(name, FACTS[name], [Setter(Source.STARTED_WITH, name, text)]) for name, text in facts.items()
        ]
        return entries + [
            entry
            for entry in self.entries()
            if entry.name not in facts and (entry.name not in ABSENT_UNLESS_SET or entry.source is not Source.DEFAULT)
        ]

    def described_of_all_brokers(self) -> list[ConfigEntry]:
        """Return the settings that were changed as the default of all brokers."""
        changed = self._changed[Source.ALL_BROKERS]
        return [
            ConfigEntry(name, SETTINGS[name], [Setter(Source.ALL_BROKERS, name, text)])
            for name, text in changed.items()
        ]
