"""InitProducerId: an id and epoch for an idempotent or transactional producer."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, NullableString, message, since


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest(Message):
    transactional_id: NullableString = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: Bool = since(6)
    keep_prepared_txn: Bool = since(6)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse(Message):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
