"""AddOffsetsToTxn: add a group's committed offsets to a transaction (KIP-98)."""

from kohort.wire.codec import Int16, Int32, Int64, Message, String, message


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(Message):
    """Add the partition of `__consumer_offsets` that holds a group's offsets."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@message(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(Message):
    """Result."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
