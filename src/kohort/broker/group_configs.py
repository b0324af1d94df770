"""The configs of consumer groups (KIP-848): each over the broker's setting of the same meaning, and kept by name.

A group has configs whether or not it exists, as in Kafka, and keeps them when it is deleted.
"""

from collections.abc import Mapping

from kohort.broker.config import BOUNDS, SETTINGS, BrokerConfig
from kohort.broker.live_config import LiveConfig, Setter, Source
from kohort.broker.setting import Setting, known_setting
from kohort.coordinator import GroupSettings
from kohort.errors import ConfigError
from kohort.log.api import LogStore

_KIND = "group"

BROKER_NAMES: Mapping[str, str] = {name.removeprefix("group."): name for name in BOUNDS}
"""By the group config's name, the broker's setting that counts where a group does not say."""

GROUP_SETTINGS: Mapping[str, Setting] = {name: SETTINGS[broker_name] for name, broker_name in BROKER_NAMES.items()}


class GroupConfigs:
    """What groups set for themselves."""

    def __init__(self, store: LogStore, broker: BrokerConfig) -> None:
        self._store = store
        self.follow(broker)

    def follow(self, broker: BrokerConfig) -> None:
        """These are the broker's settings from now on."""
        self._broker = broker
        self._default = _settings({}, broker)
        self._of_group = {group_id: _settings(configs, broker) for group_id, configs in self.all().items()}

    def settings(self, group_id: str) -> GroupSettings:
        """What counts for the group now. Asked at every heartbeat."""
        return self._of_group.get(group_id, self._default)

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """By group id, those that set something."""
        return self._store.configs(_KIND)

    def of(self, group_id: str) -> Mapping[str, str]:
        """What the group sets."""
        return self.all().get(group_id, {})

    def change(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Make these all that the group sets; they were checked. Durable when it returns."""
        self._store.keep_configs(_KIND, group_id, configs)
        if configs:
            self._of_group[group_id] = _settings(configs, self._broker)
        else:
            self._of_group.pop(group_id, None)


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """ConfigError for a group config that is unknown, bad, or outside the bounds that the broker sets."""
    for name, text in configs.items():
        number = known_setting(name, GROUP_SETTINGS).parse(name, text)
        low, high = BOUNDS[BROKER_NAMES[name]]
        if not broker.number(low) <= int(number) <= broker.number(high):
            allowed = f"{broker.number(low)} ({low}) and {broker.number(high)} ({high})"
            raise ConfigError(f"{name} must lie between {allowed}, not {number}.")
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    if group_number(session, configs, broker) <= group_number(interval, configs, broker):
        raise ConfigError(f"{session} must be larger than {interval}.")


def group_number(name: str, configs: Mapping[str, str], broker: BrokerConfig) -> int:
    """What counts for a group with these configs.

    Kept configs may lie outside the bounds of a broker that was started with others: the nearest bound counts then.
    """
    broker_name = BROKER_NAMES[name]
    own = configs.get(name)
    if own is None:
        return broker.number(broker_name)
    low, high = BOUNDS[broker_name]
    return min(max(int(own), broker.number(low)), broker.number(high))


def _settings(configs: Mapping[str, str], broker: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        session_timeout_ms=group_number("consumer.session.timeout.ms", configs, broker),
        heartbeat_interval_ms=group_number("consumer.heartbeat.interval.ms", configs, broker),
        assignment_interval_ms=group_number("consumer.assignment.interval.ms", configs, broker),
    )


def group_setters(name: str, configs: Mapping[str, str], live: LiveConfig) -> list[Setter]:
    """Who sets `name` for a group with these configs, the one that counts first."""
    own = configs.get(name)
    default = live.setters(BROKER_NAMES[name])
    return default if own is None else [Setter(Source.GROUP, name, own), *default]
