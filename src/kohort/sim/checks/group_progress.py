"""Progress and commits of every group, as reported by applications and log: S1 of members, S7, S8, S11.

Each commit has unique metadata, which identifies it. Topics are identified by their ids: a topic
that is deleted and recreated under the same name begins without a history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kohort.client import Membership
from kohort.member import OffsetAndMetadata, Phase
from kohort.model import NO_TOPIC_ID, UUID, TopicPartition
from kohort.sim.plans import ApplicationSettings
from kohort.sim.violation import Violation

Place = tuple[str, UUID, TopicPartition]
"""Group, and partition of the topic with that id."""


@dataclass(slots=True)
class Written:
    """Durable commits of one place, in log order."""

    values: list[OffsetAndMetadata | None] = field(default_factory=list)
    """None for an offset that was deleted or has expired."""
    latest: dict[str, int] = field(default_factory=dict)
    """Index of the last element of `values` with each metadata."""
    acknowledged: int = -1
    """Index of the newest element of `values` that was acknowledged to a client."""
    by_writer: dict[str, int] = field(default_factory=dict)
    """Offset that each application committed last."""


class ObservedApplication(Protocol):
    """Application as the observer sees it."""

    name: str
    settings: ApplicationSettings
    membership: Membership | None
    seen: object
    """Generation and assignment that the observer saw last."""

    def owned_by_id(self) -> dict[tuple[UUID, int], TopicPartition]:
        """Return the partitions that a member of the consumer protocol owns, by topic id."""
        ...


class GroupProgress:
    """Observer of all applications."""

    def __init__(self) -> None:
        self.produced: dict[tuple[UUID, TopicPartition], int] = {}
        """Number of records of each partition."""
        self.exists: Callable[[UUID], bool] = lambda topic_id: True
        """Function that returns whether a topic exists. A deleted topic delivers nothing more."""
        self.id_of: Callable[[str], UUID | None] = lambda name: None
        """Function that returns the ID of the existing topic with a name; None if there is none."""
        self.written: defaultdict[Place, Written] = defaultdict(Written)
        self._held_ids: dict[str, dict[TopicPartition, UUID | None]] = {}
        """Topic ids of what each classic member has, at the time at which it got it, by application.

        It knows names only, so it keeps a partition whose topic is deleted and recreated. In a group that
        has members of both protocols, the owner of the new one does not wait for it, as in Kafka.
        """
        self._protocols: dict[str, str] = {}
        """Protocol of each application that was a member."""
        self.covered: dict[Place, int] = {}
        """Offset up to which a group's members have processed everything from the start."""
        self.acknowledgements = 0
        self.deliveries = 0
        self.expects_exactly_once = False
        """Whether the world has no faults, so that every record is processed exactly once."""
        self.repeatable: set[Place] = set()
        """Places whose records may be processed again although there was no fault, until that is committed."""
        self.peers: Callable[[], Sequence[ObservedApplication]] = list
        """Function that returns all running applications."""
        self.counts: Callable[[str, str], bool] = lambda group_id, member_id: True
        """Function that returns whether the coordinator has that member; a removed member learns of it later."""
        self.overtaken: Container[str | None] = ()
        """Metadata of commits that arrived after their clients had given them up and sent them again elsewhere."""
        self.damaged_at: dict[str, float] = {}
        """Time at which a damaged disk last lost records of a group."""
        self.lost_generations: dict[str, int] = {}
        """Newest generation or epoch of a group when the disk lost records of it: members may still be at these."""
        self.lost: dict[Place, set[str]] = {}
        """Places whose newest commit the disk lost, with the metadata of the commits before."""
        self._bases: dict[Place, int] = {}
        """Number of commits of a place that were forgotten with its newest one."""

    # Reports of applications

    def end_of(self, topic_id: UUID | None, partition: TopicPartition) -> int:
        """Return the number of records of the partition; 0 if that topic was deleted."""
        if topic_id is None or not self.exists(topic_id):
            return 0
        return self.produced.get((topic_id, partition), 0)

    def processed(
        self, application: ObservedApplication, topic_id: UUID | None, partition: TopicPartition, first: int, end: int
    ) -> None:
        """Record that these offsets were delivered."""
        place = application.settings.group, topic_id or NO_TOPIC_ID, partition
        known = self.covered.get(place, 0)
        if first > known:
            raise Violation("S11", f"{application.name} skips {partition} from {known} to {first}")
        if self.expects_exactly_once and first < known and place not in self.repeatable:
            raise Violation(
                "S11", f"{application.name} processes {partition} again from {first}, although the group was at {known}"
            )
        self.covered[place] = max(known, end)
        self.deliveries += end - first

    def committed(self, application: ObservedApplication, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Check an acknowledged commit: it must be on the disk unchanged."""
        self.acknowledgements += 1
        for partition, offset in offsets.items():
            value = offset._replace(topic_id=None)
            place = self._stored_at(application.settings.group, offset.topic_id, partition, value.metadata)
            written = self.written[place]
            at = written.latest.get(value.metadata)
            if at is None and value.metadata in self.lost.get(place, ()):
                continue
            if at is None:
                raise Violation(
                    "S7",
                    f"a commit of {partition} at {value} was acknowledged to {application.name}, but is not in the log",
                )
            if written.values[at] != value:
                raise Violation("S7", f"{partition}: {value} was stored as {written.values[at]}")
            written.acknowledged = max(written.acknowledged, at)

    def _stored_at(self, group: str, topic_id: UUID | None, partition: TopicPartition, metadata: str) -> Place:
        """Return the place of a commit; if it was sent by name, the newest one at which it was written.

        A classic member may be assigned a topic before it has any metadata. The coordinator stores its
        commits for the topic that has the name there.
        """
        if topic_id is not None:
            return group, topic_id, partition
        known = {place: written.latest.keys() for place, written in self.written.items()}
        places = [
            place
            for place, tags in [*self.lost.items(), *known.items()]
            if (place[0], place[2]) == (group, partition) and metadata in tags
        ]
        return places[-1] if places else (group, NO_TOPIC_ID, partition)

    def asks(self, application: ObservedApplication, topic_id: UUID | None, partition: TopicPartition) -> int:
        """Return the latest acknowledged commit when a lookup of the committed offset begins, for `found`."""
        place = application.settings.group, topic_id or NO_TOPIC_ID, partition
        return self._bases.get(place, 0) + self.written[place].acknowledged

    def found(
        self,
        application: ObservedApplication,
        topic_id: UUID | None,
        partition: TopicPartition,
        offset: OffsetAndMetadata | None,
        since: int,
    ) -> None:
        """Check a committed offset that was read: it was written, and is no older than the acknowledged one."""
        place = application.settings.group, topic_id or NO_TOPIC_ID, partition
        written, since = self.written.get(place), since - self._bases.get(place, 0)
        if not (topic_id is None or self.exists(topic_id)):
            since = -1  # offsets of a topic are deleted with it
        if written is None:
            if offset is not None:
                raise Violation("S7", f"{partition}: {offset} was read, but never written")
            return
        if offset is None:
            gone = since < 0 or None in written.values[since:]
            if not gone:
                raise Violation(
                    "S7", f"{partition}: no offset was read, although {written.values[-1]} was acknowledged"
                )
            return
        at = written.latest.get(offset.metadata)
        if at is None or written.values[at] != offset:
            raise Violation("S7", f"{partition}: {offset} was read, but never written")
        newest = written.values[since] if since >= 0 else None
        if at < since:
            raise Violation("S8", f"{partition}: {offset} was read after {newest} was acknowledged")

    def owns(self, application: ObservedApplication) -> None:
        """Check a changed assignment: no other member of the same generation has any of its partitions."""
        membership = application.membership
        self._protocols[application.name] = application.settings.protocol
        if application.settings.protocol != "classic":
            self._owns_alone(application)
            return
        if membership is None or membership.state is not Phase.STABLE:
            return
        mine = membership.assignment
        if application.seen == (membership.generation, mine):
            return
        application.seen = membership.generation, mine
        before = self._held_ids.get(application.name, {})
        held = {partition: before.get(partition, self.id_of(partition.topic)) for partition in mine}
        self._held_ids[application.name] = held
        if (membership.generation or 0) <= self.lost_generations.get(application.settings.group, -1):
            return  # a generation that the disk lost is assigned again
        group = [other for other in self.peers() if other.settings.group == application.settings.group]
        is_mixed = any(other.settings.protocol != "classic" for other in group)
        for other in group:
            if other is application or other.membership is None:
                continue
            if application.settings.instance is not None and application.settings.instance == other.settings.instance:
                continue  # two processes with the same instance id: the older one will learn that it is fenced
            theirs = other.membership
            counts = theirs.generation == membership.generation and theirs.member_id != membership.member_id
            if counts and self.counts(application.settings.group, theirs.member_id):
                both = mine & (theirs.assignment - self._replaced(other))
                if is_mixed:
                    both = frozenset(each for each in both if held[each] == self.id_of(each.topic))
                if both:
                    raise Violation(
                        "S1", f"{application.name} and {other.name} both have {sorted(both)} in {theirs.generation}"
                    )

    def _replaced(self, application: ObservedApplication) -> frozenset[TopicPartition]:
        """Return the partitions that a member still owns of deleted topics whose names other topics have now.

        No other member waits until the member gives them up. A classic member is assigned names,
        which are those of the new topics.
        """
        if application.settings.protocol == "classic":
            return frozenset()
        owned = application.owned_by_id().items()
        return frozenset(
            partition for (topic_id, _), partition in owned if self.id_of(partition.topic) not in (None, topic_id)
        )

    def _share_by_name(self, topic_id: UUID, partition: TopicPartition, one: str, other: str) -> bool:
        """Return whether a classic member and one of the other protocol both process a partition, as in Kafka.

        The classic one got it when a deleted topic had this name, and knows names only; see `_held_ids`.
        """
        if self.id_of(partition.topic) != topic_id or {self._protocols.get(one), self._protocols.get(other)} != {
            "classic",
            "consumer",
        }:
            return False
        classic = one if self._protocols[one] == "classic" else other
        return self._held_ids.get(classic, {}).get(partition) not in (None, topic_id)

    def _owns_alone(self, application: ObservedApplication) -> None:
        """Check that no other member has any of its partitions, whatever their epochs (KIP-848)."""
        mine = application.membership
        if mine is None or mine.generation is None or application.seen == mine.assignment:
            return
        application.seen = mine.assignment
        group = application.settings.group
        lost = self.lost_generations.get(group, -1)
        if mine.generation <= lost or not self.counts(group, mine.member_id):
            return
        for other in self.peers():
            theirs = other.membership
            if (
                other is application
                or theirs is None
                or (other.settings.group, other.settings.protocol) != (group, "consumer")
            ):
                continue
            is_same = (
                application.settings.instance is not None and application.settings.instance == other.settings.instance
            )
            at = theirs.generation
            if not is_same and at is not None and at > lost and self.counts(group, theirs.member_id):
                both = application.owned_by_id().keys() & other.owned_by_id().keys()
                if both:
                    named = sorted(application.owned_by_id()[partition] for partition in both)
                    raise Violation("S1", f"{application.name} and {other.name} both have {named}")

    # Reports of the log

    def durable(self, group: str, topic_id: UUID, partition: TopicPartition, value: OffsetAndMetadata | None) -> None:
        """Record a durable commit, or its deletion."""
        place = group, topic_id, partition
        written = self.written[place]
        last = written.values[-1] if written.values else None
        written.values.append(value)
        if value is None:
            written.by_writer.clear()
            return
        written.latest[value.metadata] = len(written.values) - 1
        writer = _writer(value)
        if last is not None and value.offset < last.offset and value.metadata not in self.overtaken:
            is_behind_itself = value.offset < written.by_writer.get(writer, 0)
            if is_behind_itself or not self._share_by_name(topic_id, partition, writer, _writer(last)):
                raise Violation("S8", f"{group} goes back in {partition} from {last} to {value}")
        written.by_writer[writer] = value.offset
        known = self.covered.get(place, 0)
        if value.offset == known:
            self.repeatable.discard(place)
        if value.offset > known:
            raise Violation(
                "S11",
                f"{group} committed {partition} at {value.offset}, but its members processed it up to {known} only",
            )

    def damaged(self, group: str, generation: int, now: float) -> None:
        """Record that the disk lost records of the group, whose newest generation or epoch was this one."""
        self.damaged_at[group] = now
        self.lost_generations[group] = max(generation, self.lost_generations.get(group, -1))

    def damaged_place(self, place: Place) -> None:
        """Record that the disk lost the newest commit of this place; what remains will be reported again."""
        written = self.written.pop(place, Written())
        self.lost.setdefault(place, set()).update(written.latest)
        self._bases[place] = self._bases.get(place, 0) + len(written.values)


def _writer(value: OffsetAndMetadata) -> str:
    """Return the application that committed an offset, which is the beginning of the metadata."""
    return (value.metadata or "").partition("#")[0]
