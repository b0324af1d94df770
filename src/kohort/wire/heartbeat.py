"""Heartbeat: a classic member is alive, and learns of rebalances."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, message, since


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Message):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Message):
    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
