"""Members that wait for offsets in an open transaction, as the journal and the log report them."""

from dataclasses import dataclass

from kohort.group_events import OffsetsHeldUp
from kohort.model import Millis, TopicPartition

_SHOWN = 5
"""Maximum number of partitions that a sentence lists."""


@dataclass(frozen=True, slots=True)
class HeldOffsets:
    """Wait of a group's members for offsets that an open transaction has committed. Times are in milliseconds."""

    producer_id: int
    transactional_id: str | None
    """None if the coordinator loaded the offsets from the log, which does not have it."""
    pending_since: Millis
    """Time of the oldest of these offsets."""
    waiting_since: Millis
    """Time at which a member was first told to wait."""
    partitions: tuple[TopicPartition, ...] = ()
    """Partitions with offsets of the transaction; in JSON, pairs of topic and number."""
    end: str | None = None
    """A value of `kohort.group_events.HoldUpEnd`; None while members wait."""
    log_partition: int | None = None
    """Partition of `__consumer_offsets` with the offsets."""

    @classmethod
    def of(cls, event: OffsetsHeldUp) -> "HeldOffsets":
        """Return what the journal keeps of an event."""
        return cls(
            event.producer_id,
            event.transactional_id,
            event.pending_since,
            event.waiting_since,
            event.partitions,
            None if event.end is None else event.end.value,
            event.log_partition,
        )

    @property
    def transaction(self) -> str:
        """Name of the transaction for a sentence."""
        if self.transactional_id is None:
            return f"producer {self.producer_id}"
        return f"{self.transactional_id} (producer {self.producer_id})"

    @property
    def listed(self) -> str:
        """The first partitions for a sentence."""
        more = len(self.partitions) - _SHOWN
        names = ", ".join(map(str, self.partitions[:_SHOWN]))
        return f"{names} and {more} more" if more > 0 else names

    @property
    def advice(self) -> str:
        """What an operator can do."""
        if self.transactional_id is None:
            find = f"kohort transactions list --producer-id {self.producer_id} shows its transactional ID,"
            fence = f"{find} and kohort transactions fence ID ends it"
        else:
            fence = f"kohort transactions fence {self.transactional_id} ends it and fences its producer"
        if self.log_partition is None:
            return fence
        where = f"__consumer_offsets {self.log_partition}"
        return (
            f"{fence}; if kohort transactions find-hanging --topic __consumer_offsets lists it,"
            f" kohort transactions abort {where} --producer-id {self.producer_id} does"
        )
