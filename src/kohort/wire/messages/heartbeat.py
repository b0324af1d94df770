"""Heartbeat: keep the session of a classic member alive, and notify it of rebalances."""

from kohort.wire.codec import Int16, Int32, Message, NullableString, String, message, since


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest(Message):
    """Heartbeat of a classic member."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: NullableString = since(3, default=None)  # KIP-345


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse(Message):
    """Response to a heartbeat. REBALANCE_IN_PROGRESS tells the member that it must rejoin."""

    throttle_time_ms: Int32 = since(1, ignorable=True)
    error_code: Int16 = 0
