"""DescribeGroups: state and members of classic groups."""

from kohort.wire.codec import (
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
    groups: list[String] = array()
    include_authorized_operations: Bool = since(3)


@struct
class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: NullableString = since(4, default=None, ignorable=True)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: NullableString = since(6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = array()
    authorized_operations: Int32 = since(3, default=-2147483648)


@message(key=15, versions=(0, 6), flexible=5)
class DescribeGroupsResponse(Message):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    groups: list[DescribedGroup] = array()
