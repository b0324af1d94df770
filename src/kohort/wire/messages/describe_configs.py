"""DescribeConfigs: describe the configs of topics, brokers and groups, with the source of each value."""

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
    """A resource (type 2: topic, 4: broker, 32: group) and the names of the configs, or null for all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = array()


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest(Message):
    """Describe the configs of resources."""

    resources: list[DescribeConfigsResource] = array()
    include_synonyms: Bool = False
    include_documentation: Bool = since(3)


@struct
class DescribeConfigsSynonym(Struct):
    """Another source of a config's value, in order of precedence."""

    name: String = ""
    value: NullableString = ""
    source: Int8 = 0


@struct
class DescribeConfigsResourceResult(Struct):
    """Description of a config."""

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
    """Configs of one resource."""

    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = array()


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse(Message):
    """Configs of each resource."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = array()
