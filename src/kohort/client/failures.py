"""Errors of the client that say more than a code."""

from collections.abc import Collection, Iterable, Mapping

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition


class CommitFailedError(KafkaError):
    """Some of a commit's partitions were not committed. `errors` has the code of each; the others are committed."""

    def __init__(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        code = next(iter(errors.values()))
        listed = ", ".join(f"{partition} ({why.name})" for partition, why in sorted(errors.items())[:5])
        more = f" and {len(errors) - 5} more" if len(errors) > 5 else ""
        super().__init__(code, f"{code.sentence}; not committed: {listed}{more}")
        self.errors = dict(errors)


class DeliveryFailedError(KafkaError):
    """Records were not written, as `flush` found out. `failures` has a topic, a number of records and the error of each
    kind of failure; `count` is the sum."""

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
        """False: the records are gone. To send them again is the application's decision."""
        return False


class InvalidRecordError(KohortError, TypeError):
    """A record's key, value or headers are not bytes."""


class NotAssignedError(KohortError):
    """A commit named partitions that the group has given to others, who would go on from it."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        listed = ", ".join(str(partition) for partition in sorted(partitions)[:5])
        more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
        super().__init__(
            f"{listed}{more}: not assigned to this consumer, so the commit would move another's position. Commit what"
            " is revoked before on_revoked returns."
        )
        self.partitions = frozenset(partitions)


class NoOffsetError(KohortError):
    """The group has no committed offset for a partition, and auto_offset_reset is "none"."""


class LogTruncatedError(KohortError):
    """A partition's log lost records that the consumer has read, and auto_offset_reset is "none" (KIP-320).

    `end` is where what both know ends; None where the leader cannot say. Seek to go on.
    """

    def __init__(self, partition: TopicPartition, position: int, end: int | None) -> None:
        until = "nobody knows where" if end is None else f"at {end}"
        super().__init__(
            f"{partition} lost records that were read: the position is {position}, and the log that was read ends"
            f" {until}. Seek to go on, or set auto_offset_reset."
        )
        self.partition, self.position, self.end = partition, position, end


class ClosedError(KohortError):
    """The client was closed, or its member has left."""


class ConcurrentUseError(KohortError):
    """A client is used where it cannot be: by two threads at once, in another event loop, or after a fork."""


class BufferFullError(KohortError):
    """`send_nowait` cannot take the record now."""
