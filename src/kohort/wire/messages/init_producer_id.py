"""InitProducerId: get a producer ID and epoch for an idempotent or transactional producer."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, NullableString, message, since


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdRequest(Message):
    """Request a producer ID or, for a transactional ID, the next epoch of its existing producer ID."""

    transactional_id: NullableString = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)  # KIP-360
    producer_epoch: Int16 = since(3, default=-1)
    enable_2pc: Bool = since(6)  # KIP-939
    keep_prepared_txn: Bool = since(6)


@message(key=22, versions=(0, 6), flexible=2)
class InitProducerIdResponse(Message):
    """Producer ID and epoch that the producer's batches must contain from now on."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
