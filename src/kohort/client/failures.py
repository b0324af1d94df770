"""Exceptions of the client that carry more than an error code."""

from collections.abc import Collection, Iterable, Mapping

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.security import Acl, AclFilter


class AclsFailedError(KafkaError):
    """ACLs that were not created or not deleted. `errors` has the error of each; the others are changed.

    An error that concerns a whole filter of `delete_acls` has the filter as its key.
    """

    def __init__(self, errors: Mapping[Acl | AclFilter, KafkaError]) -> None:
        self.errors = dict(errors)
        first = next(iter(self.errors.values()))
        sentences = list(dict.fromkeys(error.sentence for error in self.errors.values()))
        more = f" ({len(sentences) - 3} more reasons)" if len(sentences) > 3 else ""
        super().__init__(first.code, " ".join(sentences[:3]) + more)


class CommitFailedError(KafkaError):
    """Commit that failed for some partitions. `errors` has the code of each; the others are committed."""

    def __init__(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        code = next(iter(errors.values()))
        listed = ", ".join(f"{partition} ({why.name})" for partition, why in sorted(errors.items())[:5])
        more = f" and {len(errors) - 5} more" if len(errors) > 5 else ""
        super().__init__(code, f"{code.sentence}; not committed: {listed}{more}")
        self.errors = dict(errors)


class DeliveryFailedError(KafkaError):
    """Records that were not written, raised by `flush`.

    `failures` has a topic, a number of records and the error of each kind of failure; `count` is
    the total number of records.
    """

    def __init__(self, failures: Iterable[tuple[str, int, Exception]]) -> None:
        self.failures = tuple(failures)
        self.count = sum(count for _, count, _ in self.failures)
        listed = "; ".join(f"{count} to {topic} ({error})" for topic, count, error in self.failures[:5])
        more = f"; and {len(self.failures) - 5} more kinds" if len(self.failures) > 5 else ""
        first = self.failures[0][2]
        code = first.code if isinstance(first, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        records = "record was" if self.count == 1 else "records were"
        super().__init__(code, f"{self.count} {records} not written since the last flush: {listed}{more}")

    @property
    def retriable(self) -> bool:
        """False: the records are discarded, and only the application can decide to send them again."""
        return False


class InvalidRecordError(KohortError, TypeError):
    """Record whose key, value or headers are not bytes."""


class NotAssignedError(KohortError):
    """Commit of partitions that are assigned to other members, which would continue from it."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        listed = ", ".join(str(partition) for partition in sorted(partitions)[:5])
        more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
        super().__init__(
            f"{listed}{more}: not assigned to this consumer, so the commit would move another member's position. Commit"
            " revoked partitions before on_revoked returns."
        )
        self.partitions = frozenset(partitions)


class NoOffsetError(KohortError):
    """Partition without a committed offset while auto_offset_reset is "none"."""


class OffsetOutOfRangeError(KafkaError):
    """Position that the partition does not have, while auto_offset_reset is "none". Seek to continue."""

    def __init__(self, partition: TopicPartition, position: int) -> None:
        detail = f"{partition}: offset {position} is out of range; seek, or set auto_offset_reset"
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        self.partition = partition
        self.position = position


class LogTruncatedError(KohortError):
    """Log that lost records which the consumer has read, while auto_offset_reset is "none" (KIP-320).

    `end` is the offset at which the log and the records read diverge; None if the leader does not
    know it. Seek to continue.
    """

    def __init__(self, partition: TopicPartition, position: int, end: int | None) -> None:
        until = "at an unknown offset" if end is None else f"at {end}"
        super().__init__(
            f"{partition} lost records that were read: the position is {position}, and the log that was read ends"
            f" {until}. Seek to continue, or set auto_offset_reset."
        )
        self.partition, self.position, self.end = partition, position, end


class ClosedError(KohortError):
    """Use of a client that was closed or whose member has left."""


class ConcurrentUseError(KohortError):
    """Use of a client by two threads at once, in another event loop, or after a fork."""


class BufferFullError(KohortError):
    """`send_nowait` without room for the record, or with a topic that is not known yet."""
