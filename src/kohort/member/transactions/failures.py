"""Exceptions of a transactional producer. Their classes say whether to abort, to call again, or to give up."""

from kohort.errors import ErrorCode, KafkaError, KohortError


class TransactionAbortableError(KafkaError):
    """Transaction that cannot commit. Abort it, then begin another one with the same records.

    `code` is the error of the record, the offsets or the request that failed.
    """

    @property
    def retriable(self) -> bool:
        """False: only a new transaction can succeed."""
        return False


class TransactionTimeoutError(KafkaError):
    """Call that did not end within max_block_ms and goes on. Call the same method again to learn its result."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, detail)


class FatalTransactionError(KafkaError):
    """Error after which the producer can do nothing more. Close it, and make another one."""

    @property
    def retriable(self) -> bool:
        """False: only another producer can succeed."""
        return False


class ProducerFencedError(FatalTransactionError):
    """Another producer uses the transactional ID, or the transaction exceeded transaction_timeout_ms.

    Close this producer. A program that runs only once per transactional ID may make another one.
    """


class TransactionStateError(KohortError):
    """Method that does not apply in the producer's state, such as `send` outside of a transaction."""
