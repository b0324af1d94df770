"""ListGroups: list the groups that a broker coordinates."""

from kohort.wire.codec import Int16, Int32, Message, String, Struct, array, message, since, struct


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest(Message):
    """List all groups, or those in some states (KIP-518) or of some types (KIP-848)."""

    states_filter: list[String] = since(4)
    types_filter: list[String] = since(5)


@struct
class ListedGroup(Struct):
    """A group with its state and type."""

    group_id: String = ""
    protocol_type: String = ""
    group_state: String = since(4, ignorable=True)
    group_type: String = since(5, ignorable=True)  # KIP-848


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse(Message):
    """Groups that this broker coordinates."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = array()
