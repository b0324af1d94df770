"""Errors of the client that say more than a code."""

from collections.abc import Collection, Mapping

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


class BufferFullError(KohortError):
    """`send_nowait` cannot take the record now."""
