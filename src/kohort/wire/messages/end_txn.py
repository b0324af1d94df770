"""EndTxn: commit or abort a transaction (KIP-98, KIP-890)."""

from kohort.wire.codec import Bool, Int16, Int32, Int64, Message, String, message, since


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest(Message):
    """Commit or abort a transaction. Version 5 is for producers with transaction.version 2."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@message(key=26, versions=(0, 5), flexible=3)
class EndTxnResponse(Message):
    """Result, and the producer ID and epoch of the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)  # KIP-890: each transaction has its own epoch
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
