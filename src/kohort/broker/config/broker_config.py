"""The values of a broker's settings, read and checked once.

Values are strings (`--set NAME=VALUE`, or lines of a file).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kohort.broker.config.broker_settings import BOUNDS, RACK_AWARE, SETTINGS
from kohort.broker.config.security import setting_of_listener, split_listener_name
from kohort.broker.config.setting import Value, known_setting
from kohort.errors import ConfigError
from kohort.properties import parse_properties


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """All settings by Kafka's name, with defaults filled in."""

    values: Mapping[str, Value] = field(repr=False)  # some are secrets
    own: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, repr=False)
    """Settings of single listeners, by the listener's name in lower case."""

    @property
    def listener_names(self) -> list[str]:
        """Names of the listeners that have settings of their own, in lower case."""
        return list(self.own)

    def of_listener(self, name: str) -> "BrokerConfig":
        """Return the settings with those of this listener in place of the broker's."""
        return BrokerConfig({**self.values, **self.own.get(name.lower(), {})})

    def number(self, name: str) -> int:
        """Return the value of a whole number."""
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a boolean."""
        value = self.values[name]
        assert isinstance(value, bool)
        return value

    def text(self, name: str) -> str:
        """Return the value of a string."""
        value = self.values[name]
        assert isinstance(value, str)
        return value

    def text_or_empty(self, name: str) -> str:
        """Return the value of a string that only listeners may have; empty if this one has none."""
        return self.text(name) if name in self.values else ""

    def names(self, name: str) -> list[str]:
        """Return the parts of a list."""
        return [part.strip() for part in self.text(name).split(",") if part.strip()]

    @property
    def reads_in_rack(self) -> bool:
        """Whether consumers read from a replica in their rack (KIP-392)."""
        return self.text("replica.selector.class") == RACK_AWARE


def parse_config(settings: Mapping[str, str] | None = None) -> BrokerConfig:
    """Check every setting and fill in the defaults; the ConfigError for an unknown name suggests the nearest one."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    own: dict[str, dict[str, Value]] = {}
    for name, text in (settings or {}).items():
        of_listener = split_listener_name(name)
        if of_listener is None:
            values[name] = known_setting(name, SETTINGS).parse(name, text)
            continue
        listener, bare = of_listener
        setting = setting_of_listener(bare)
        if setting is None:
            raise ConfigError(f"Unknown setting {name}: a listener has no setting {bare} of its own.")
        own.setdefault(listener, {})[bare] = setting.parse(name, text)
    config = BrokerConfig(values, own)
    _check_order(config, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    for name, (low, high) in BOUNDS.items():
        _check_order(config, low, name)
        _check_order(config, name, high)
    if config.number("group.consumer.heartbeat.interval.ms") >= config.number("group.consumer.session.timeout.ms"):
        raise ConfigError("group.consumer.session.timeout.ms must be larger than group.consumer.heartbeat.interval.ms.")
    if "classic" not in config.names("group.coordinator.rebalance.protocols"):
        raise ConfigError("group.coordinator.rebalance.protocols must include classic.")
    return config


def is_sensitive(name: str) -> bool:
    """Return whether the value of this setting is a secret."""
    of_listener = split_listener_name(name)
    setting = SETTINGS.get(name) if of_listener is None else setting_of_listener(of_listener[1])
    return setting is not None and setting.sensitive


def _check_order(config: BrokerConfig, low: str, high: str) -> None:
    if config.number(low) > config.number(high):
        raise ConfigError(f"{low} ({config.number(low)}) must not be larger than {high} ({config.number(high)}).")


def read_settings(path: Path) -> dict[str, str]:
    """Read a file of the form of Kafka's server.properties. Raise ConfigError if the file cannot be read."""
    try:
        found = parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from error
    return {name: value.strip() for name, value in found.items()}
