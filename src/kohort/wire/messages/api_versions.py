"""ApiVersions: list the APIs and versions that a broker supports."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(Message):
    """First request of a client, in its newest version."""

    client_software_name: String = since(3, ignorable=True)  # KIP-511
    client_software_version: String = since(3, ignorable=True)


@struct
class ApiVersion(Struct):
    """An API with its lowest and highest version."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey(Struct):
    """A feature that this broker supports."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey(Struct):
    """A feature at its finalized level in the cluster."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(Message):
    """APIs and features of a broker. In version 0, also the response to an unsupported request version (KIP-511)."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: Int32 = since(1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = since(3, ignorable=True, tag=0)
    finalized_features_epoch: Int64 = since(3, default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = since(3, ignorable=True, tag=2)
    zk_migration_ready: Bool = since(3, ignorable=True, tag=3)
