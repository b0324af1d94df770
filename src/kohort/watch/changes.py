"""Changes that the log of a cluster's groups reports: one per record of `__consumer_offsets` that matters here.

The log tells what holds from now on, never which request caused it: a member that left and a member
whose session expired write the same record.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kohort.group_events import MemberFacts
from kohort.model import UUID, Millis, TopicPartition

IdPartition = tuple[UUID, int]
"""Partition by the ID of its topic. Records of consumer groups have no names of topics."""


@dataclass(frozen=True, slots=True)
class GenerationMember:
    """Member of a classic group in one generation."""

    facts: MemberFacts
    topics: frozenset[str]
    assigned: frozenset[TopicPartition]
    kept: frozenset[TopicPartition] = frozenset()
    """Partitions that it went on to process as it joined; none if its assignor is eager."""


@dataclass(frozen=True, slots=True)
class GenerationWritten:
    """New generation of a classic group, with its assignment. Without members, the group is empty."""

    group_id: str
    at: Millis
    generation: int
    protocol_type: str
    protocol: str | None
    leader_id: str | None
    members: tuple[GenerationMember, ...]


@dataclass(frozen=True, slots=True)
class EpochRaised:
    """New group epoch of a consumer group. `metadata_hash` changes with the subscribed topics; 0 if unknown."""

    group_id: str
    at: Millis
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class MemberWritten:
    """Identity and subscription of a consumer group's member, when it joins and when either changes."""

    group_id: str
    at: Millis
    facts: MemberFacts
    topics: frozenset[str]
    expression: str | None = None
    assignor: str | None = None


@dataclass(frozen=True, slots=True)
class MemberDeleted:
    """End of a membership in a consumer group."""

    group_id: str
    at: Millis
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetComputed:
    """Target assignment of a consumer group, complete for this group epoch."""

    group_id: str
    at: Millis
    epoch: int


@dataclass(frozen=True, slots=True)
class AssignmentWritten:
    """Step of a consumer group's member toward its target."""

    group_id: str
    at: Millis
    member_id: str
    epoch: int
    previous_epoch: int
    """Epoch before this step; 0 or less if the member has just joined."""
    stable: bool
    """Whether the member owes no revocation and waits for no partition."""
    assigned: frozenset[IdPartition]
    revoking: frozenset[IdPartition]
    """Partitions that it must give up, and still processes."""


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """Deletion of a group, or its change to the other protocol, whose records follow."""

    group_id: str
    at: Millis
    type: str
    """`classic` or `consumer`."""


class Committed(NamedTuple):
    """Committed offset. `at` is the time of the commit by the coordinator's clock.

    Nearly all changes are commits, and a tuple is made in a third of the time of other values.
    """

    group_id: str
    at: Millis
    partition: TopicPartition
    offset: int
    after_gap: bool = False
    """Whether commits of the partition before this one were left out."""


@dataclass(frozen=True, slots=True)
class CommitDeleted:
    """Deletion of a committed offset, by request or by expiry."""

    group_id: str
    at: Millis
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class TopicNamed:
    """Name of a topic's ID."""

    topic_id: UUID
    name: str


GroupChange = (
    GenerationWritten
    | EpochRaised
    | MemberWritten
    | MemberDeleted
    | TargetComputed
    | AssignmentWritten
    | GroupDeleted
    | Committed
    | CommitDeleted
)
Change = GroupChange | TopicNamed
