"""Settings of the broker, of topics and of groups: static and dynamic.

Modules that read settings take `BrokerConfig`. Admins see and change a `ConfigEntry` for each config: `DynamicConfig`
has those of the broker; `topic_entries` and `group_entries` return the others.
"""

from kohort.broker.config.advertised_listeners import (
    address_text,
    check_listener,
    is_local_name,
    machine_name,
    split_address,
)
from kohort.broker.config.broker_config import BrokerConfig, is_sensitive, parse_config, read_settings
from kohort.broker.config.client_metrics import (
    CLIENT_METRICS_SETTINGS,
    DEFAULT_INTERVAL_MS,
    Subscription,
    Subscriptions,
    client_metrics_entries,
    subscription,
)
from kohort.broker.config.dynamic import DynamicConfig
from kohort.broker.config.entries import ConfigEntry, Source
from kohort.broker.config.features import SUPPORTED_FEATURES, Features, FeatureUpdate, UpgradeType
from kohort.broker.config.groups import GroupConfigs, check_group_configs, group_config, group_entries
from kohort.broker.config.inter_broker import InterBroker, read_inter_broker
from kohort.broker.config.listeners import DEFAULT_NAME, Address, Listener, read_advertised, read_listeners
from kohort.broker.config.reference import setting_reference
from kohort.broker.config.security import STANDARD_AUTHORIZER
from kohort.broker.config.setting import Setting
from kohort.broker.config.single_connection import SINGLE_CONNECTION
from kohort.broker.config.topics import check_topic_configs, store_defaults, topic_entries
from kohort.broker.config.unused_security import warn_of_unused_security
from kohort.broker.config.watch_listener import (
    WATCH_ADDRESS,
    WATCH_LISTENER,
    WatchLogin,
    read_watch_login,
)
from kohort.broker.config.without_effect import warn_of_idle_settings

__all__ = [
    "CLIENT_METRICS_SETTINGS",
    "DEFAULT_INTERVAL_MS",
    "DEFAULT_NAME",
    "SINGLE_CONNECTION",
    "STANDARD_AUTHORIZER",
    "SUPPORTED_FEATURES",
    "WATCH_ADDRESS",
    "WATCH_LISTENER",
    "Address",
    "BrokerConfig",
    "ConfigEntry",
    "DynamicConfig",
    "FeatureUpdate",
    "Features",
    "GroupConfigs",
    "InterBroker",
    "Listener",
    "Setting",
    "Source",
    "Subscription",
    "Subscriptions",
    "UpgradeType",
    "WatchLogin",
    "address_text",
    "check_group_configs",
    "check_listener",
    "check_topic_configs",
    "client_metrics_entries",
    "group_config",
    "group_entries",
    "is_local_name",
    "is_sensitive",
    "machine_name",
    "parse_config",
    "read_advertised",
    "read_inter_broker",
    "read_listeners",
    "read_settings",
    "read_watch_login",
    "setting_reference",
    "split_address",
    "store_defaults",
    "subscription",
    "topic_entries",
    "warn_of_idle_settings",
    "warn_of_unused_security",
]
