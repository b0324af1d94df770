"""DescribeGroups: describe the state and the members of classic groups."""

from kohort.wire.codec import (
    NOT_ASKED,
    Bool,
    Bytes,
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


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsRequest(Message):
    """Describe groups by ID."""

    groups: list[String] = array()
    include_authorized_operations: Bool = since(3)


@struct
class DescribedGroupMember(Struct):
    """A member, with its subscription for the group's assignor and its assignment."""

    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup(Struct):
    """Description of a group. A group that does not exist is Dead."""

    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None, ignorable=True)  # KIP-1043
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = array()
    authorized_operations: Int32 = since(3, default=NOT_ASKED)


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(Message):
    """Description of each group."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    groups: list[DescribedGroup] = array()
