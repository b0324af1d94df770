"""UpdateFeatures: raise or lower the finalized levels of the cluster's features (KIP-584, KIP-778)."""

from kohort.wire.codec import (
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    since,
    struct,
)


@struct
class FeatureUpdateKey(Struct):
    """New level of a feature; 0 removes it from the finalized ones."""

    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = since(0, until=0)
    upgrade_type: Int8 = since(1, default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest(Message):
    """Update some features. From version 2, either all or none are updated."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[FeatureUpdateKey] = array()
    validate_only: Bool = since(1)


@struct
class UpdatableFeatureResult(Struct):
    """Result for one feature."""

    feature: String = ""
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse(Message):
    """Result for the request, and below version 2 for each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    results: list[UpdatableFeatureResult] = since(0, until=1, ignorable=True)
