"""Who processes which partition of a group, and what nobody processes since when."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.model import Millis, TopicPartition


@dataclass(frozen=True, slots=True)
class Dark:
    """A partition that nobody processes."""

    since: Millis
    previous_owner: str


@dataclass(slots=True)
class Holdings:
    """As far as the recorder knows, of one group."""

    owner: dict[TopicPartition, str] = field(default_factory=dict)
    """Who processes it, or did until it went dark."""
    held: dict[str, set[TopicPartition]] = field(default_factory=dict)
    """The same by member."""
    dark: dict[TopicPartition, Dark] = field(default_factory=dict)

    def give(self, partition: TopicPartition, member_id: str) -> None:
        """It is this member's from now on, dark or not."""
        before = self.owner.get(partition)
        if before != member_id:
            if before is not None:
                self.held[before].discard(partition)
                if not self.held[before]:
                    del self.held[before]
            self.owner[partition] = member_id
            self.held.setdefault(member_id, set()).add(partition)

    def darken(self, partitions: Iterable[TopicPartition], now: Millis) -> None:
        """Whoever has them has stopped; what is dark already stays so since then."""
        for partition in partitions:
            self.dark.setdefault(partition, Dark(now, self.owner[partition]))
