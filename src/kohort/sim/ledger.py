"""What every group has processed and committed, as the applications and the log say: S1 of the members, S7, S8, S11.

Each commit has metadata of its own, which identifies it. Topics are identified by their ids: of a topic that is deleted
and created again under its name, everything begins anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kohort.member import OffsetAndMetadata, Phase
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.sim.application import Application
from kohort.sim.violation import Violation

Place = tuple[str, UUID, TopicPartition]
"""A group and a partition of the topic with that id."""


@dataclass(slots=True)
class Written:
    """The commits of one place that are durable, in log order."""

    values: list[OffsetAndMetadata | None] = field(default_factory=list)
    """None: it was deleted or has expired."""
    latest: dict[str, int] = field(default_factory=dict)
    """By metadata, the last of `values` that carries it."""
    acknowledged: int = -1
    """The newest of `values` that a client was told of."""


class Ledger:
    """The witness of all applications."""

    def __init__(self) -> None:
        self.produced: dict[tuple[UUID, TopicPartition], int] = {}
        """How many records each partition has."""
        self.exists: Callable[[UUID], bool] = lambda topic_id: True
        """Whether a topic is there. A deleted one delivers nothing more."""
        self.written: defaultdict[Place, Written] = defaultdict(Written)
        self.covered: dict[Place, int] = {}
        """Up to which offset a group's members processed everything from the start on."""
        self.acknowledgements = 0
        self.deliveries = 0
        self.orderly = False
        """Whether the world has no fault, so that every record is processed exactly once."""
        self.excused: set[str] = set()
        """Groups in which a record may be processed again though there was no fault."""
        self.peers: Callable[[], list[Application]] = list
        """All applications that live."""
        self.counts: Callable[[str, str], bool] = lambda group_id, member_id: True
        """Whether the coordinator counts that member; one that it does not will hear of it."""
        self.doubted: set[str] = set()
        """Groups of whom a damaged disk lost records: what was acknowledged may be gone, and nothing else."""

    # Of applications

    def end_of(self, topic_id: UUID | None, partition: TopicPartition) -> int:
        """How many records the partition has; none where that topic is gone."""
        if topic_id is None or not self.exists(topic_id):
            return 0
        return self.produced.get((topic_id, partition), 0)

    def processed(
        self, who: Application, topic_id: UUID | None, partition: TopicPartition, first: int, end: int
    ) -> None:
        """These offsets have been delivered."""
        place = who.habits.group, topic_id or NO_TOPIC_ID, partition
        known = self.covered.get(place, 0)
        if first > known:
            raise Violation("S11", f"{who.name} skips {partition} from {known} to {first}")
        if self.orderly and first < known and who.habits.group not in self.excused:
            raise Violation("S11", f"{who.name} processes {partition} again from {first}, and the group was at {known}")
        self.covered[place] = max(known, end)
        self.deliveries += end - first

    def committed(self, who: Application, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """A commit was acknowledged: it is on the disk, or must not have been."""
        self.acknowledgements += 1
        for partition, said in offsets.items():
            value = said._replace(topic_id=None)
            written = self.written[who.habits.group, said.topic_id or NO_TOPIC_ID, partition]
            at = written.latest.get(value.metadata)
            if at is None and who.habits.group in self.doubted:
                continue
            if at is None:
                raise Violation("S7", f"{who.name} was told that {partition} is committed at {value}, unwritten")
            if written.values[at] != value:
                raise Violation("S7", f"{partition}: {value} was stored as {written.values[at]}")
            written.acknowledged = max(written.acknowledged, at)

    def asks(self, who: Application, topic_id: UUID | None, partition: TopicPartition) -> int:
        """Its committed offset is about to be read; for `found`, what is acknowledged by now."""
        return self.written[who.habits.group, topic_id or NO_TOPIC_ID, partition].acknowledged

    def found(
        self,
        who: Application,
        topic_id: UUID | None,
        partition: TopicPartition,
        offset: OffsetAndMetadata | None,
        since: int,
    ) -> None:
        """The group's committed offset was read: it is one that was written, and no older than the acknowledged."""
        written = self.written.get((who.habits.group, topic_id or NO_TOPIC_ID, partition))
        if who.habits.group in self.doubted or not (topic_id is None or self.exists(topic_id)):
            since = -1  # what was committed for a topic is forgotten with it
        if written is None:
            if offset is not None:
                raise Violation("S7", f"{partition}: {offset} was read, and nobody ever wrote it")
            return
        if offset is None:
            gone = since < 0 or None in written.values[since:]
            if not gone:
                raise Violation("S7", f"{partition}: nothing was read, though {written.values[-1]} was acknowledged")
            return
        at = written.latest.get(offset.metadata)
        if at is None or written.values[at] != offset:
            raise Violation("S7", f"{partition}: {offset} was read, not written")
        newest = written.values[since] if since >= 0 else None
        if at < since:
            raise Violation("S8", f"{partition}: {offset} was read after {newest} was acknowledged")

    def owns(self, who: Application) -> None:
        """Its assignment changed: nobody else of its generation has what it has."""
        membership = who.membership
        if who.habits.protocol != "classic":
            self._owns_alone(who)
            return
        if membership is None or membership.state is not Phase.STABLE:
            return
        mine = membership.assignment
        if who.seen == (membership.generation, mine):
            return
        who.seen = membership.generation, mine
        if who.habits.group in self.doubted:
            return  # generations that a disk lost are given again
        for other in self.peers():
            if other is who or other.habits.group != who.habits.group or other.membership is None:
                continue
            if who.habits.instance is not None and who.habits.instance == other.habits.instance:
                continue  # two processes that believe to be the same: the older one is about to hear that it is fenced
            theirs = other.membership
            counts = theirs.generation == membership.generation and theirs.member_id != membership.member_id
            if counts and self.counts(who.habits.group, theirs.member_id):
                both = mine & theirs.assignment
                if both:
                    raise Violation(
                        "S1", f"{who.name} and {other.name} both have {sorted(both)} in {theirs.generation}"
                    )

    def _owns_alone(self, who: Application) -> None:
        """By KIP-848 nobody is given what another still has, whatever their epochs."""
        mine = who.membership
        if mine is None or mine.generation is None or who.seen == mine.assignment:
            return
        who.seen = mine.assignment
        group = who.habits.group
        if group in self.doubted or not self.counts(group, mine.member_id):
            return
        for other in self.peers():
            theirs = other.membership
            if other is who or theirs is None or (other.habits.group, other.habits.protocol) != (group, "consumer"):
                continue
            is_same = who.habits.instance is not None and who.habits.instance == other.habits.instance
            if not is_same and theirs.generation is not None and self.counts(group, theirs.member_id):
                both = who.owned_by_id().keys() & other.owned_by_id().keys()
                if both:
                    named = sorted(who.owned_by_id()[one] for one in both)
                    raise Violation("S1", f"{who.name} and {other.name} both have {named}")

    # Of the log

    def durable(self, group: str, topic_id: UUID, partition: TopicPartition, value: OffsetAndMetadata | None) -> None:
        """A commit, or the end of one, is on the disk."""
        place = group, topic_id, partition
        written = self.written[place]
        last = written.values[-1] if written.values else None
        written.values.append(value)
        if value is None:
            return
        written.latest[value.metadata] = len(written.values) - 1
        if last is not None and value.offset < last.offset:
            raise Violation("S8", f"{group} goes back on {partition} from {last} to {value}")
        known = self.covered.get(place, 0)
        if value.offset > known:
            raise Violation("S11", f"{group} committed {partition} at {value.offset}, delivered to {known}")

    def damaged(self, groups: Iterable[str]) -> None:
        """The disk lost something of these groups; what is left is told anew."""
        lost = set(groups)
        self.doubted |= lost
        for place in [place for place in self.written if place[0] in lost]:
            del self.written[place]
