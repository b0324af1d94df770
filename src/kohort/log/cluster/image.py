"""What the brokers of a cluster agree on: who lives, which topics there are, who leads each partition.

A value with transitions and no I/O: `directory.py` keeps it in a file and lets one broker at a time change it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.log.api import Topic
from kohort.log.kept_configs import AllConfigs
from kohort.model import UUID

NOBODY = -1
"""Stands for the node of a partition that has no leader: no broker lives."""

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Node:
    """A broker that lives."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Leader(NamedTuple):
    """Who leads a partition, at which epoch."""

    node_id: int
    epoch: int
    following: int = NOBODY
    """The broker that the leader is to give it to, where it is not NOBODY."""


class PartitionId(NamedTuple):
    """One partition; a topic that is made again under its name is another."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster at one version."""

    version: int = 0
    first_epoch: int = 0
    """The epoch of partitions that nobody led before."""
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[UUID, Topic] = field(default_factory=dict)
    leaders: Mapping[UUID, tuple[Leader, ...]] = field(default_factory=dict)
    """Of each topic, by partition."""
    deleting: frozenset[UUID] = frozenset()
    """Topics that are gone for clients, and whose leaders have not removed their files yet."""
    configs: AllConfigs = field(default_factory=dict)

    def named(self, name: str) -> Topic | None:
        """The topic of that name, one that is being deleted included."""
        return next((topic for topic in self.topics.values() if topic.name == name), None)

    def leader(self, one: PartitionId) -> Leader:
        """Who leads it. Raises KeyError, IndexError where there is no such partition."""
        return self.leaders[one.topic_id][one.partition]

    def led_by(self, node_id: int) -> Iterator[tuple[PartitionId, Leader]]:
        """What that broker leads, partitions that are being deleted included."""
        for topic_id, leaders in self.leaders.items():
            for partition, leader in enumerate(leaders):
                if leader.node_id == node_id:
                    yield PartitionId(topic_id, partition), leader

    @property
    def settled(self) -> bool:
        """Whether every partition has a leader that keeps it."""
        return all(
            leader.node_id != NOBODY and leader.following == NOBODY
            for topic_id, leaders in self.leaders.items()
            for leader in leaders
            if topic_id not in self.deleting
        )

    # Brokers

    def joined(self, node: Node) -> "ClusterImage":
        """With a broker more; it gets its share of what the others lead.

        One that is known already was dead without anybody's notice: it keeps what it led, at the next epoch.
        """
        again = {one: leader._replace(epoch=leader.epoch + 1) for one, leader in self.led_by(node.node_id)}
        there = replace(self._led(again), nodes={**self.nodes, node.node_id: node})
        return there._adopted(NOBODY)._spread()

    def gone(self, node_id: int) -> "ClusterImage":
        """Without a broker that closed its partitions or is dead: the others lead them at the next epoch."""
        if node_id not in self.nodes:
            return self
        left = replace(self, nodes={number: node for number, node in self.nodes.items() if number != node_id})
        return left._adopted(node_id)

    def given(self, ones: Iterable[PartitionId]) -> "ClusterImage":
        """Those partitions, which their leaders have closed, belong to whom they were to be given to."""
        changed = {
            one: Leader(leader.following, leader.epoch + 1)
            for one in ones
            if (leader := self.leader(one)).following in self.nodes
        }
        return self._led(changed)

    def _adopted(self, node_id: int) -> "ClusterImage":
        """What `node_id` led, or was to lead, is the others'."""
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                one = PartitionId(topic_id, partition)
                if leader.node_id == node_id:
                    heir = leader.following if leader.following in self.nodes else _least(counts)
                    counts[heir] += 1
                    changed[one] = Leader(heir, leader.epoch + 1)
                elif leader.following == node_id != NOBODY:
                    changed[one] = Leader(leader.node_id, leader.epoch)
        return self._led(changed)

    def _spread(self) -> "ClusterImage":
        """As few partitions as possible are to move so that nobody leads two more than another, of any kind."""
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                if topic_id in self.deleting or leader.following != NOBODY or leader.node_id not in counts:
                    continue
                target = _least(counts)
                if counts[leader.node_id] - counts[target] >= 2:
                    counts[leader.node_id] -= 1
                    counts[target] += 1
                    changed[PartitionId(topic_id, partition)] = leader._replace(following=target)
        return self._led(changed)

    def _load(self) -> defaultdict[str, Counter[int]]:
        """How many partitions of each kind each broker will lead."""
        nobody = Counter(dict.fromkeys(sorted(self.nodes), 0))
        load: defaultdict[str, Counter[int]] = defaultdict(nobody.copy)
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for leader in leaders:
                heir = leader.node_id if leader.following == NOBODY else leader.following
                if heir in counts:
                    counts[heir] += 1
        return load

    def _kind(self, topic_id: UUID) -> str:
        """Internal topics are spread each on its own: every broker is to have coordinators, and write the journal."""
        name = self.topics[topic_id].name
        return name if name.startswith("__") else ""

    def _led(self, changed: Mapping[PartitionId, Leader]) -> "ClusterImage":
        if not changed:
            return self
        leaders = dict(self.leaders)
        by_topic: dict[UUID, list[Leader]] = {}
        for one, leader in changed.items():
            by_topic.setdefault(one.topic_id, list(leaders[one.topic_id]))[one.partition] = leader
        leaders.update((topic_id, tuple(led)) for topic_id, led in by_topic.items())
        return replace(self, leaders=leaders)

    # Topics

    def created(self, topic: Topic, leaders: Sequence[int] = ()) -> "ClusterImage":
        """With a new topic, whose partitions go to those brokers in turn, as far as they are named and live.

        The others go round the brokers; the one that leads least begins.
        """
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, leaders)

    def altered(self, topic: Topic, leaders: Sequence[int] = ()) -> "ClusterImage":
        """With other configs of a topic that exists, or more partitions, which go as those of a new one."""
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, leaders)

    def deleted(self, topic_id: UUID) -> "ClusterImage":
        """The topic is gone; its leaders have to remove its files."""
        return replace(self, deleting=self.deleting | {topic_id})

    def removed(self, node_id: int) -> "ClusterImage":
        """That broker has removed the files of all deleted topics that it leads."""
        leaders = dict(self.leaders)
        for topic_id in self.deleting:
            leaders[topic_id] = tuple(
                leader._replace(node_id=NOBODY, following=NOBODY) if leader.node_id == node_id else leader
                for leader in leaders[topic_id]
            )
        over = {one for one in self.deleting if all(leader.node_id == NOBODY for leader in leaders[one])}
        return replace(
            self,
            deleting=self.deleting - over,
            topics={one: topic for one, topic in self.topics.items() if one not in over},
            leaders={one: led for one, led in leaders.items() if one not in over},
        )

    def configured(self, kind: str, name: str, configs: Mapping[str, str]) -> "ClusterImage":
        """With these configs of a resource that is no topic; none forgets the name."""
        kept = {other: own for other, own in self.configs.get(kind, {}).items() if other != name}
        return replace(self, configs={**self.configs, kind: {**kept, name: dict(configs)} if configs else kept})

    @staticmethod
    def _grown(image: "ClusterImage", topic: Topic, leaders: Sequence[int]) -> "ClusterImage":
        led = list(image.leaders.get(topic.topic_id, ()))
        counts = image._load()[image._kind(topic.topic_id)]
        turn = sorted(counts, key=lambda node_id: (counts[node_id], node_id)) or [NOBODY]
        for number in range(topic.partitions - len(led)):
            named = leaders[number] if number < len(leaders) else NOBODY
            led.append(Leader(named if named in image.nodes else turn[number % len(turn)], image.first_epoch))
        return replace(image, leaders={**image.leaders, topic.topic_id: tuple(led)})


Transition = Callable[[ClusterImage], ClusterImage]


def _least(counts: Counter[int]) -> int:
    return min(counts, key=lambda node_id: (counts[node_id], node_id), default=NOBODY)
