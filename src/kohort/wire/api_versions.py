"""ApiVersions: which requests in which versions a broker understands."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, Struct, array, message, since, struct


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(Message):
    """What a client sends first, in its newest version."""

    client_software_name: String = since(3, ignorable=True)  # KIP-511
    client_software_version: String = since(3, ignorable=True)


@struct
class ApiVersion(Struct):
    """A kind of request, and its versions from lowest to highest."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey(Struct):
    """A feature that this broker can run."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class FinalizedFeatureKey(Struct):
    """A feature at the level that the cluster runs it at."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(Message):
    """Also the answer, in version 0, to a request in a version that the broker does not know (KIP-511)."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: Int32 = since(1, ignorable=True)
    supported_features: list[SupportedFeatureKey] = since(3, ignorable=True, tag=0)
    finalized_features_epoch: Int64 = since(3, default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = since(3, ignorable=True, tag=2)
    zk_migration_ready: Bool = since(3, ignorable=True, tag=3)
