"""FindCoordinator: find the coordinators of groups or transactional IDs."""

from kohort.wire.codec import Int8, Int16, Int32, Message, NullableString, String, Struct, message, since, struct


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest(Message):
    """Find the coordinator of one key or, from version 4, of several (KIP-699).

    `key_type` 0 is a group, 1 a transactional ID.
    """

    key: String = since(0, until=3)
    key_type: Int8 = since(1)
    coordinator_keys: list[String] = since(4)


@struct
class Coordinator(Struct):
    """Coordinator of one key."""

    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse(Message):
    """Coordinators. Before version 4, the fields for one key are used, else `coordinators`."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = since(0, until=3)
    error_message: NullableString = since(1, until=3, default=None, ignorable=True)
    node_id: Int32 = since(0, until=3)
    host: String = since(0, until=3)
    port: Int32 = since(0, until=3)
    coordinators: list[Coordinator] = since(4)
