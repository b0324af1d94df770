"""IncrementalAlterConfigs: set, delete, append to or subtract from single configs (KIP-339)."""

from kohort.wire.codec import Bool, Int8, Int16, Int32, Message, NullableString, String, Struct, array, message, struct


@struct
class AlterableConfig(Struct):
    """A config and its new value, or null for the default."""

    name: String = ""
    config_operation: Int8 = 0  # 0 set, 1 delete, 2 append, 3 subtract
    value: NullableString = ""


@struct
class AlterConfigsResource(Struct):
    """A resource (type 2: topic, 4: broker, 32: group) and its new configs."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = array()


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsRequest(Message):
    """Change single configs of resources. Configs that are not listed keep their values."""

    resources: list[AlterConfigsResource] = array()
    validate_only: Bool = False


@struct
class AlterConfigsResourceResponse(Struct):
    """Result for one resource."""

    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""


@message(key=44, versions=(0, 1), flexible=1)
class IncrementalAlterConfigsResponse(Message):
    """Result for each resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()
