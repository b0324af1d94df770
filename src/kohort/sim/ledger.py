"""What every group has processed and committed, as the applications and the log say: S1 of the members, S7, S8, S11.

Commits are told apart by their metadata, which is another one each time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kohort.member import OffsetAndMetadata, Phase
from kohort.model import TopicPartition
from kohort.sim.application import Application
from kohort.sim.violation import Violation

Place = tuple[str, TopicPartition]
"""A group and a partition."""


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
        self.produced: dict[TopicPartition, int] = {}
        self.written: defaultdict[Place, Written] = defaultdict(Written)
        self.covered: dict[Place, int] = {}
        """Up to which offset a group's members processed everything from the start on."""
        self.acknowledgements = 0
        self.deliveries = 0
        self.orderly = False
        """Nothing goes wrong in this world, so every record is processed exactly once."""
        self.peers: Callable[[], list[Application]] = list
        """All applications that live."""
        self.counts: Callable[[str, str], bool] = lambda group_id, member_id: True
        """Whether the coordinator counts that member; one that it does not will hear of it."""
        self.doubted: set[str] = set()
        """Groups of whom a damaged disk lost records: what was acknowledged may be gone, and nothing else."""
        self.reborn: set[str] = set()
        """Topics that were deleted: a commit by name may mean the one before, so nothing is said of their offsets."""

    # Of applications

    def end_of(self, partition: TopicPartition) -> int:
        """How many records the partition has."""
        return self.produced.get(partition, 0)

    def processed(self, who: Application, partition: TopicPartition, first: int, end: int) -> None:
        """These offsets have been delivered."""
        if partition.topic in self.reborn:
            return
        place = who.habits.group, partition
        known = self.covered.get(place, 0)
        if first > known:
            raise Violation("S11", f"{who.name} skips {partition} from {known} to {first}")
        if not (not self.orderly or first == known):
            raise Violation("S11", f"{who.name} processes {partition} again from {first}")
        self.covered[place] = max(known, end)
        self.deliveries += end - first

    def committed(self, who: Application, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """A commit was acknowledged: it is on the disk, or must not have been."""
        self.acknowledgements += 1
        for partition, value in offsets.items():
            if partition.topic in self.reborn:
                continue
            written = self.written[who.habits.group, partition]
            at = written.latest.get(value.metadata)
            if at is None and who.habits.group in self.doubted:
                continue
            if at is None:
                raise Violation("S7", f"{who.name} was told that {partition} is committed at {value}, unwritten")
            assert at is not None
            if written.values[at] != value:
                raise Violation("S7", f"{partition}: {value} was stored as {written.values[at]}")
            written.acknowledged = max(written.acknowledged, at)

    def asks(self, who: Application, partition: TopicPartition) -> int:
        """Its committed offset is about to be read; for `found`, what is acknowledged by now."""
        return self.written[who.habits.group, partition].acknowledged

    def found(self, who: Application, partition: TopicPartition, offset: OffsetAndMetadata | None, since: int) -> None:
        """The group's committed offset was read: it is one that was written, and no older than the acknowledged."""
        if partition.topic in self.reborn:
            return
        written = self.written.get((who.habits.group, partition))
        if who.habits.group in self.doubted:
            since = -1
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
        if not (at is not None and written.values[at] == offset):
            raise Violation("S7", f"{partition}: {offset} was read, not written")
        assert at is not None
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
                both = {tp for tp in mine & theirs.assignment if tp.topic not in self.reborn}
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
                both = {tp for tp in mine.assignment & theirs.assignment if tp.topic not in self.reborn}
                if both:
                    raise Violation("S1", f"{who.name} and {other.name} both have {sorted(both)}")

    # Of the log

    def durable(self, group: str, partition: TopicPartition, value: OffsetAndMetadata | None) -> None:
        """A commit, or the end of one, is on the disk."""
        if partition.topic in self.reborn:
            return
        written = self.written[group, partition]
        last = written.values[-1] if written.values else None
        written.values.append(value)
        if value is None:
            return
        written.latest[value.metadata] = len(written.values) - 1
        if not (last is None or value.offset >= last.offset):
            raise Violation("S8", f"{group} goes back on {partition} from {last} to {value}")
        known = self.covered.get((group, partition), 0)
        if value.offset > known:
            raise Violation("S11", f"{group} committed {partition} at {value.offset}, delivered to {known}")

    def damaged(self, groups: Iterable[str]) -> None:
        """The disk lost something of these groups; what is left is told anew."""
        lost = set(groups)
        self.doubted |= lost
        for place in [place for place in self.written if place[0] in lost]:
            del self.written[place]

    def topic_gone(self, topic: str) -> None:
        """What was known of it is not true of the one that may take its name."""
        self.reborn.add(topic)
        for partition in [partition for partition in self.produced if partition.topic == topic]:
            del self.produced[partition]
