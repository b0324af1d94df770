"""Finalized features of the cluster (KIP-584): their levels, and the epoch in which they were changed last.

They are in the store, so all brokers of a cluster have the same, also after a restart.
"""

import logging
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from kohort.broker.config.broker_config import BrokerConfig
from kohort.errors import ErrorCode, KafkaError
from kohort.log import AllConfigs, LogStore

log = logging.getLogger("kohort.broker")

TRANSACTION_VERSION = "transaction.version"
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({TRANSACTION_VERSION: (0, 2)})
"""Lowest and highest level of each feature. As in Kafka, level 0 is that of a feature that is not finalized."""

_KIND, _NAME, _EPOCH = "features", "finalized", "epoch"
"""Kind and name of the stored configs with the levels by feature, and the config with the epoch."""


class UpgradeType(IntEnum):
    """Change that an update may make."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """New level of a feature."""

    level: int
    upgrade_type: UpgradeType | None
    """None for a type that is unknown here."""


class Features:
    """Reads and changes the finalized features in the store."""

    def __init__(self, store: LogStore, config: BrokerConfig) -> None:
        """Read the features. A new cluster has the levels of the settings."""
        self._store = store
        self._initial: Mapping[str, str] = {TRANSACTION_VERSION: str(config.number(TRANSACTION_VERSION)), _EPOCH: "0"}
        if _NAME not in store.configs(_KIND):
            try:
                store.update_configs(_KIND, _NAME, lambda kept: kept or self._initial)
            except OSError as error:  # a full disk stops no broker
                log.warning("the levels of features are not stored yet, those of the settings apply: %s", error)
        self.follow()

    def follow(self) -> None:
        """Read the features again, after the store has changed."""
        kept = self._store.configs(_KIND).get(_NAME, self._initial)
        self._levels = {name: int(kept.get(name, 0)) for name in SUPPORTED_FEATURES}
        self.epoch = int(kept[_EPOCH])
        """Number of changes so far. Clients keep the levels with the highest epoch."""

    @staticmethod
    def changed(before: AllConfigs, now: AllConfigs) -> bool:
        """Return whether the features in the store differ."""
        return before.get(_KIND) != now.get(_KIND)

    @property
    def finalized(self) -> Mapping[str, int]:
        """Level of each finalized feature."""
        return {name: level for name, level in self._levels.items() if level}

    @property
    def transaction_version(self) -> int:
        """Level of the feature transaction.version."""
        return self._levels[TRANSACTION_VERSION]

    def update(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool) -> None:
        """Change levels, all or none; durable on return. Raise KafkaError or OSError; then nothing has changed."""

        def updated(stored: Mapping[str, str]) -> Mapping[str, str]:
            kept = stored or self._initial
            for name, update in updates.items():
                _check(name, update, int(kept.get(name, 0)))
            levels = {name: str(update.level) for name, update in updates.items()}
            if validate_only or {**kept, **levels} == kept:
                return stored
            return {**kept, **levels, _EPOCH: str(int(kept[_EPOCH]) + 1)}

        before = self._levels
        self._store.update_configs(_KIND, _NAME, updated)
        self.follow()
        for name, level in self._levels.items():
            if level != before[name]:
                log.warning("the level of the feature %s is %d now, it was %d", name, level, before[name])

    def warn_of_other_settings(self, settings: Mapping[str, str]) -> None:
        """Log a warning for each of the broker's own settings that the cluster, which is not new, does not follow."""
        for name, level in self._levels.items():
            if name in settings and settings[name].strip() != str(level):
                log.warning(
                    "The setting %s=%s has no effect: the cluster's level is %d. Change it with"
                    " kohort features upgrade or downgrade.",
                    name,
                    settings[name],
                    level,
                )


def _check(name: str, update: FeatureUpdate, current: int) -> None:
    """Raise KafkaError for an update that cannot be made."""
    level, upgrade_type = update
    lowest, highest = SUPPORTED_FEATURES.get(name, (0, -1))
    if upgrade_type is None:
        why = "The broker does not know the type of the update."
    elif level < 0:
        why = "A level cannot be less than 0."
    elif highest < 0:
        why = f"The broker does not support this feature; it supports {', '.join(SUPPORTED_FEATURES)}."
    elif not lowest <= level <= highest:
        why = f"The broker supports levels {lowest} to {highest}."
    elif level < current and upgrade_type is UpgradeType.UPGRADE:
        why = f"The level is {current}; to lower it, set the type of the update to a safe or unsafe downgrade."
    elif level > current and upgrade_type is not UpgradeType.UPGRADE:
        why = f"The level is {current}; a downgrade cannot raise it."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {why}")
