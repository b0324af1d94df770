"""Features of a cluster and their finalized levels (KIP-584)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kohort.client.net import Cluster, api_versions_request
from kohort.errors import ConfigError
from kohort.requests import check
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


class UpgradeType(Enum):
    """Change that a `FeatureUpdate` may make."""

    UPGRADE = 1
    """Raise the level."""
    SAFE_DOWNGRADE = 2
    """Lower the level, if no metadata is lost."""
    UNSAFE_DOWNGRADE = 3
    """Lower the level even if metadata is lost."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """New level of a feature. Level 0 removes it from the finalized ones."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class SupportedVersionRange(NamedTuple):
    """Levels of a feature that a broker supports."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Features of a cluster, as one broker reports them."""

    finalized_features: Mapping[str, int]
    """Level of each finalized feature; others have level 0."""
    finalized_features_epoch: int | None
    """Number that increases with each change of a level; None if the broker does not know the levels."""
    supported_features: Mapping[str, SupportedVersionRange]
    """Levels that the broker supports."""


async def describe_features(cluster: Cluster) -> FeatureMetadata:
    """Return the supported features and the finalized levels."""
    response = await cluster.retrying(lambda: cluster.ask_any(api_versions_request(), ApiVersionsResponse))
    check(response.error_code, "")
    epoch = response.finalized_features_epoch
    return FeatureMetadata(
        {each.name: each.max_version_level for each in sorted(response.finalized_features, key=lambda each: each.name)},
        None if epoch < 0 else epoch,
        {
            each.name: SupportedVersionRange(each.min_version, each.max_version)
            for each in sorted(response.supported_features, key=lambda each: each.name)
        },
    )


async def update_features(cluster: Cluster, updates: Mapping[str, FeatureUpdate], *, validate_only: bool) -> None:
    """Change levels: all, or none if one cannot be changed."""
    if not updates:
        raise ConfigError("Name at least one feature to update.")
    request = UpdateFeaturesRequest(
        timeout_ms=cluster.options.request_timeout_ms,
        feature_updates=[
            FeatureUpdateKey(
                feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type.value
            )
            for name, update in updates.items()
        ],
        validate_only=validate_only,
    )
    response = await cluster.retrying(lambda: cluster.ask_any(request, UpdateFeaturesResponse))
    check(response.error_code, "", response.error_message)
    for result in response.results:  # below version 2, of Apache Kafka before 4.0
        check(result.error_code, result.feature, result.error_message)
