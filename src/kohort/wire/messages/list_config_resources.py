"""ListConfigResources: list the resources that have configs (KIP-1142)."""

from kohort.wire.codec import Int8, Int16, Int32, Message, String, Struct, array, message, since, struct


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest(Message):
    """List the resources of some types; an empty list means all types."""

    resource_types: list[Int8] = since(1)


@struct
class ConfigResource(Struct):
    """A resource that has configs."""

    resource_name: String = ""
    resource_type: Int8 = since(1, default=16, ignorable=True)


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse(Message):
    """Resources that have configs."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = array()
