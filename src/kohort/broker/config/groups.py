"""The configs of consumer groups (KIP-848): Kafka's, each with a broker setting as its default, and two of ours.

As in Kafka, a group has configs whether or not it exists, and keeps them when it is deleted.
"""

import re
from collections.abc import Mapping

from kohort.assignor.server import find_server_assignors
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.broker_settings import BOUNDS, SETTINGS
from kohort.broker.config.dynamic import DynamicConfig
from kohort.broker.config.entries import ConfigEntry, Setter, Source
from kohort.broker.config.setting import ABSENT, Setting, known_setting
from kohort.coordinator import GroupConfig, GroupSettings, MigrationPolicy, Weights
from kohort.errors import ConfigError
from kohort.log import AllConfigs, LogStore

_RESOURCE = "group"
"""The resource type under which the store keeps them."""
_WEIGHT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

BROKER_NAMES: Mapping[str, str] = {name.removeprefix("group."): name for name in BOUNDS}
"""Broker setting with the default of each group config, by the config's name."""

ASSIGNOR, WEIGHTS = "consumer.assignor", "consumer.member.weights"

GROUP_SETTINGS: Mapping[str, Setting] = {
    **{name: SETTINGS[broker_name] for name, broker_name in BROKER_NAMES.items()},
    ASSIGNOR: Setting(
        "", "Assignor of this group, whatever its members ask for. Empty: the one that they ask for.", kafka=ABSENT
    ),
    WEIGHTS: Setting(
        "",
        "Shares of members relative to each other under the assignor weighted, as ID=WEIGHT. ID is an instance ID or"
        " client ID, or the beginning of one and *. A member of weight 0 gets no partitions under any assignor.",
        is_list=True,
        kafka=ABSENT,
    ),
}


class GroupConfigs:
    """The configs that groups set for themselves."""

    def __init__(self, store: LogStore, broker: BrokerConfig) -> None:
        self._store = store
        self.follow(broker)

    def follow(self, broker: BrokerConfig) -> None:
        """Use these broker settings from now on."""
        self._broker = broker
        self._default = _settings({}, broker)
        self._of_group = {group_id: _settings(configs, broker) for group_id, configs in self.all().items()}

    @staticmethod
    def changed(before: AllConfigs, now: AllConfigs) -> list[str]:
        """Return the groups whose configs in the store differ."""
        groups, were = now.get(_RESOURCE, {}), before.get(_RESOURCE, {})
        return [
            group_id for group_id in sorted(groups.keys() | were.keys()) if groups.get(group_id) != were.get(group_id)
        ]

    def settings(self, group_id: str) -> GroupSettings:
        """Return the settings in effect for the group. Called at every heartbeat."""
        return self._of_group.get(group_id, self._default)

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """Return the configs of all groups that set any, by group ID."""
        return self._store.configs(_RESOURCE)

    def of(self, group_id: str) -> Mapping[str, str]:
        """Return the configs that the group sets."""
        return self.all().get(group_id, {})

    def change(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace all configs of the group with these, which have been checked; they are durable on return."""
        self._store.keep_configs(_RESOURCE, group_id, configs)
        if configs:
            self._of_group[group_id] = _settings(configs, self._broker)
        else:
            self._of_group.pop(group_id, None)


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise ConfigError for a group config that is unknown, invalid, or outside the broker's bounds."""
    for name, text in configs.items():
        number = known_setting(name, GROUP_SETTINGS).parse(name, text)
        if name not in BROKER_NAMES:
            continue
        low, high = BOUNDS[BROKER_NAMES[name]]
        if not broker.number(low) <= int(number) <= broker.number(high):
            allowed = f"{broker.number(low)} ({low}) and {broker.number(high)} ({high})"
            raise ConfigError(f"{name} must be between {allowed}, not {number}.")
    _check_assignor(configs.get(ASSIGNOR), broker)
    _weights(configs.get(WEIGHTS, ""))
    session, interval = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    if group_number(session, configs, broker) <= group_number(interval, configs, broker):
        raise ConfigError(f"{session} must be larger than {interval}.")


def group_number(name: str, configs: Mapping[str, str], broker: BrokerConfig) -> int:
    """Return the value in effect for a group with these configs.

    Stored configs may be outside the bounds of a broker that was started with others; then the nearest bound applies.
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
        assignor=configs.get(ASSIGNOR) or None,
        weights=_weights(configs.get(WEIGHTS, "")),
    )


def _check_assignor(name: str | None, broker: BrokerConfig) -> None:
    known = [assignor.name for assignor in find_server_assignors(broker.names("group.consumer.assignors"))]
    if name and name not in known:
        raise ConfigError(
            f"{ASSIGNOR} must be one of {', '.join(known)} (group.consumer.assignors of this broker), not {name!r}."
        )


def _weights(text: str) -> Weights:
    """Parse weights such as `app-2=5,app-*=95`; raise ConfigError for any other form."""
    patterns: list[tuple[str, float]] = []
    for part in filter(None, map(str.strip, text.split(","))):
        pattern, equals, weight = part.rpartition("=")
        if not (equals and pattern and _WEIGHT.fullmatch(weight)):
            example = "app-2=5 or app-*=0.5 (0 drains a member)"
            raise ConfigError(f"{WEIGHTS} must be a list of ID=WEIGHT, such as {example}, not {part[:80]!r}.")
        patterns.append((pattern, float(weight)))
    return Weights(tuple(patterns))


def group_entries(configs: Mapping[str, str], live: DynamicConfig) -> list[ConfigEntry]:
    """Return all configs of a group that sets these itself."""
    return [ConfigEntry(name, setting, _setters(name, configs, live)) for name, setting in GROUP_SETTINGS.items()]


def _setters(name: str, configs: Mapping[str, str], live: DynamicConfig) -> list[Setter]:
    own = configs.get(name)
    default = live.setters(BROKER_NAMES[name]) if name in BROKER_NAMES else [Setter(Source.DEFAULT, name, "")]
    return default if own is None else [Setter(Source.GROUP, name, own), *default]


def group_config(config: BrokerConfig) -> GroupConfig:
    """Return the settings that all groups of a broker share and that do not change while it runs."""
    return GroupConfig(
        min_session_timeout_ms=config.number("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.number("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.number("group.initial.rebalance.delay.ms"),
        max_size=config.number("group.max.size"),
        consumer_max_size=config.number("group.consumer.max.size"),
        consumer_migration_policy=MigrationPolicy(config.text("group.consumer.migration.policy")),
        consumer_regex_refresh_interval_ms=config.number("group.consumer.regex.refresh.interval.ms"),
        disconnect_grace_ms=config.number("group.disconnect.grace.ms"),
        heartbeat_hold_ms=config.number("group.heartbeat.hold.ms"),
        offset_metadata_max_bytes=config.number("offset.metadata.max.bytes"),
        offsets_retention_ms=config.number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.number("offsets.retention.check.interval.ms"),
    )
