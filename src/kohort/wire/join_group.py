"""JoinGroup: enter a classic group."""

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


@struct
class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: NullableString = since(8, default=None, ignorable=True)


@struct
class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None, ignorable=True)
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(Message):
    throttle_time_ms: Int32 = since(2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, default=None, ignorable=True)
    protocol_name: NullableString = since(0, default="", nullable=7)
    leader: String = ""
    skip_assignment: Bool = since(9)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = array()
