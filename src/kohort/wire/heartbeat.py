"""Heartbeat: a classic member is alive, and learns of rebalances."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, message, since


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Message):
    """I am alive."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)  # KIP-345


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Message):
    """REBALANCE_IN_PROGRESS here is how a member learns that it must join again."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
