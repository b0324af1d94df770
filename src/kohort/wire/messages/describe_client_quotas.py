"""DescribeClientQuotas: list the quotas of users, client IDs and IP addresses (KIP-546)."""

from kohort.wire.codec import (
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    struct,
)


@struct
class ComponentData(Struct):
    """Filter of one entity type (user, client-id or ip). Match type 0: this name, 1: the default, 2: any name."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: NullableString = ""


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest(Message):
    """Filter of entities. With `strict`, entities with other types besides those of the filter do not match."""

    components: list[ComponentData] = array()
    strict: Bool = False


@struct
class EntityData(Struct):
    """One part of an entity: its type, and its name or null for the default."""

    entity_type: String = ""
    entity_name: NullableString = ""


@struct
class ValueData(Struct):
    """A quota and its value."""

    key: String = ""
    value: Float64 = 0.0


@struct
class EntryData(Struct):
    """Quotas of one entity."""

    entity: list[EntityData] = array()
    values: list[ValueData] = array()


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse(Message):
    """Quotas of each matching entity."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    entries: list[EntryData] | None = array()
