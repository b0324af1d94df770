"""DescribeConfigs: the configs of topics and brokers, and where each value comes from."""

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
class DescribeConfigsResource(Struct):
    """A resource (type 2: topic, 4: broker, 32: group), and which configs of it; null: all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = array()


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest(Message):
    """Ask for configs."""

    resources: list[DescribeConfigsResource] = array()
    include_synonyms: Bool = False
    include_documentation: Bool = since(3)


@struct
class DescribeConfigsSynonym(Struct):
    """Where else a config is set, and to what, in the order of precedence."""

    name: String = ""
    value: NullableString = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult(Struct):
    """A config."""

    name: String = ""
    value: NullableString = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = array()
    config_type: Int8 = since(3, ignorable=True)
    documentation: NullableString = since(3, default="", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """The configs of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = array()


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse(Message):
    """The configs."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = array()
