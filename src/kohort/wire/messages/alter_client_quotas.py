"""AlterClientQuotas: set and remove quotas of users, client IDs and IP addresses (KIP-546)."""

from kohort.wire.codec import (
    Bool,
    Float64,
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
class EntityData(Struct):
    """One part of an entity: its type (user, client-id or ip), and its name or null for the default."""

    entity_type: String = ""
    entity_name: NullableString = ""


@struct
class OpData(Struct):
    """Set a quota, or remove it."""

    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@struct
class EntryData(Struct):
    """Changes of one entity's quotas."""

    entity: list[EntityData] = array()
    ops: list[OpData] = array()


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest(Message):
    """Change quotas."""

    entries: list[EntryData] = array()
    validate_only: Bool = False


@struct
class EntryDataResult(Struct):
    """Result for one entity."""

    error_code: Int16 = 0
    error_message: NullableString = None
    entity: list[EntityData] = array()


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse(Message):
    """Result for each entity."""

    throttle_time_ms: Int32 = 0
    entries: list[EntryDataResult] = array()
