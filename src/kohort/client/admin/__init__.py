"""Administration of topics, groups, offsets, configs, logs, users and ACLs."""

from kohort.client.admin.admin import Admin, NewTopic
from kohort.client.admin.configs import ConfigKind, ConfigSource, ConfigValue
from kohort.client.admin.features import FeatureMetadata, FeatureUpdate, SupportedVersionRange, UpgradeType
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.client.admin.groups import GroupListing, GroupOffset
from kohort.client.admin.logs import LogDirectory
from kohort.client.admin.quotas import ClientQuotaEntity, ClientQuotaFilter, QuotaName
from kohort.client.admin.transactions import HangingTransaction, TransactionDescription, TransactionListing
from kohort.client.admin.users import (
    ScramCredentialInfo,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

__all__ = [
    "Admin",
    "ClientQuotaEntity",
    "ClientQuotaFilter",
    "ConfigKind",
    "ConfigSource",
    "ConfigValue",
    "FeatureMetadata",
    "FeatureUpdate",
    "GroupDescription",
    "GroupListing",
    "GroupOffset",
    "HangingTransaction",
    "LogDirectory",
    "MemberDescription",
    "NewTopic",
    "QuotaName",
    "ScramCredentialInfo",
    "SupportedVersionRange",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "UserScramCredentialAlteration",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
]
