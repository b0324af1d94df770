"""AlterConfigs: replace all configs of a resource. Newer clients send IncrementalAlterConfigs."""

from kohort.wire.codec import Bool, Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class AlterableConfig(Struct):
    """A config and its new value, or null for the default."""

    name: String = ""
    value: NullableString = ""


@struct
class AlterConfigsResource(Struct):
    """A resource (type 2: topic, 4: broker, 32: group) and its new configs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsRequest(Message):
    """Replace the configs of resources. Configs that are not listed are reset to their defaults."""

    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse(Struct):
    """Result for one resource."""

    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


@message(key=33, versions=(0, 2), flexible=2)
class AlterConfigsResponse(Message):
    """Result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()
