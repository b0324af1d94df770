"""JoinGroup: join a classic group."""

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
    """An assignor that the member supports, with the subscription for it."""

    name: String = ""
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupRequest(Message):
    """Join a classic group. The response is delayed until all expected members have joined."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)  # KIP-62; version 0 uses the session timeout
    member_id: String = ""  # empty for a new member; see MEMBER_ID_REQUIRED (KIP-394)
    group_instance_id: NullableString = since(5, default=None)  # KIP-345; an error below v5 when set
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: NullableString = since(8, default=None, ignorable=True)  # KIP-800


@struct
class JoinGroupResponseMember(Struct):
    """A member, with its subscription for the leader."""

    member_id: String = ""
    group_instance_id: NullableString = since(5, default=None, ignorable=True)
    metadata: Bytes = b""


@message(key=11, versions=(0, 9), flexible=6)
class JoinGroupResponse(Message):
    """New generation. Only the leader receives the members."""

    throttle_time_ms: Int32 = since(2, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: NullableString = since(7, default=None, ignorable=True)  # KIP-559
    protocol_name: NullableString = since(0, default="", nullable=7)
    leader: String = ""
    skip_assignment: Bool = since(9)  # KIP-814: a static leader that restarted keeps the assignment
    member_id: String = ""
    members: list[JoinGroupResponseMember] = array()
