"""What the brokers of a cluster agree on: who lives, which topics there are, who leads each partition.

A value with transitions and no I/O: `directory.py` keeps it in a file and lets one broker at a time change it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.log.api import Topic
from kohort.log.cluster.replicas import ANY, ONE_REPLICA, Placement, place_replicas
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
    replicas: Mapping[UUID, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """By partition, of each topic that has more than one: the preferred leader first. `ANY` where there is one."""
    targets: Mapping[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    """The replicas that a partition gets when one of them leads it: its reassignment is in progress."""
    deleting: frozenset[UUID] = frozenset()
    """Topics that are gone for clients, and whose leaders have not removed their files yet."""
    configs: AllConfigs = field(default_factory=dict)

    def named(self, name: str) -> Topic | None:
        """The topic of that name, one that is being deleted included."""
        return next((topic for topic in self.topics.values() if topic.name == name), None)

    def leader(self, one: PartitionId) -> Leader:
        """Who leads it. Raises KeyError, IndexError where there is no such partition."""
        return self.leaders[one.topic_id][one.partition]

    def replicas_of(self, one: PartitionId) -> tuple[int, ...]:
        """The brokers that lead it before others do, the preferred one first; `ANY` where nobody is preferred."""
        rows = self.replicas.get(one.topic_id, ())
        return rows[one.partition] if one.partition < len(rows) else ANY

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
        """With a broker more; it gets its share of what the others lead, and what prefers it.

        One that is known already was dead without anybody's notice: it keeps what it led, at the next epoch.
        """
        again = {one: leader._replace(epoch=leader.epoch + 1) for one, leader in self.led_by(node.node_id)}
        there = replace(self.led(again), nodes={**self.nodes, node.node_id: node})
        return there._adopted(NOBODY)._returned_to(node.node_id)._spread().directed()

    def gone(self, node_id: int) -> "ClusterImage":
        """Without a broker that closed its partitions or is dead: the others lead them at the next epoch."""
        if node_id not in self.nodes:
            return self
        left = replace(self, nodes={number: node for number, node in self.nodes.items() if number != node_id})
        return left._adopted(node_id).directed()

    def given(self, ones: Iterable[PartitionId]) -> "ClusterImage":
        """Those partitions, which their leaders have closed, belong to whom they were to be given to."""
        changed = {
            one: Leader(leader.following, leader.epoch + 1)
            for one in ones
            if (leader := self.leader(one)).following in self.nodes
        }
        return self.led(changed).directed()

    def directed(self) -> "ClusterImage":
        """Reassignments go on: those whose new replicas lead are complete, the others' leaders are to give theirs."""
        if not self.targets:
            return self
        targets, rows, changed = dict(self.targets), dict(self.replicas), {}
        for one, target in self.targets.items():
            if one.topic_id not in self.leaders or one.topic_id in self.deleting:
                del targets[one]
                continue
            leader = self.leader(one)
            if leader.node_id in target:
                del targets[one]
                of_topic = list(rows.get(one.topic_id) or [ANY] * len(self.leaders[one.topic_id]))
                of_topic[one.partition] = target if len(target) > 1 else ANY
                rows[one.topic_id] = tuple(of_topic)
                if not any(of_topic):
                    del rows[one.topic_id]
                if leader.following not in target:
                    changed[one] = leader._replace(following=NOBODY)
            elif leader.following not in target:
                heir = next((node_id for node_id in target if node_id in self.nodes), NOBODY)
                if heir != leader.following:
                    changed[one] = leader._replace(following=heir)
        return replace(self.led(changed), targets=targets, replicas=rows)

    def _adopted(self, node_id: int) -> "ClusterImage":
        """What `node_id` led, or was to lead, is the others'."""
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                one = PartitionId(topic_id, partition)
                if leader.node_id == node_id:
                    heir = self._heir(one, leader, counts)
                    counts[heir] += 1
                    changed[one] = Leader(heir, leader.epoch + 1)
                elif leader.following == node_id != NOBODY:
                    changed[one] = Leader(leader.node_id, leader.epoch)
        return self.led(changed)

    def _heir(self, one: PartitionId, leader: Leader, counts: Counter[int]) -> int:
        """The broker that leads it instead: a replica, as long as one lives."""
        preferred = (leader.following, *self.targets.get(one, ANY), *self.replicas_of(one))
        return next((node_id for node_id in preferred if node_id in self.nodes), _least(counts))

    def _returned_to(self, node_id: int) -> "ClusterImage":
        """That broker is to lead what prefers it, and what none of its replicas leads."""
        changed: dict[PartitionId, Leader] = {}
        for topic_id, rows in self.replicas.items():
            for partition, replicas in enumerate(rows):
                one = PartitionId(topic_id, partition)
                leader = self.leader(one)
                if (
                    topic_id in self.deleting
                    or node_id not in replicas
                    or one in self.targets
                    or leader.node_id in (node_id, NOBODY)
                ):
                    continue
                if replicas[0] == node_id or leader.node_id not in replicas:
                    changed[one] = leader._replace(following=node_id)
        return self.led(changed)

    def _spread(self) -> "ClusterImage":
        """As few partitions as possible are to move so that nobody leads two more than another, of any kind.

        Those that have replicas, or are to have them, stay.
        """
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                if topic_id in self.deleting or leader.following != NOBODY or leader.node_id not in counts:
                    continue
                one = PartitionId(topic_id, partition)
                if self.replicas_of(one) or one in self.targets:
                    continue
                target = _least(counts)
                if counts[leader.node_id] - counts[target] >= 2:
                    counts[leader.node_id] -= 1
                    counts[target] += 1
                    changed[one] = leader._replace(following=target)
        return self.led(changed)

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

    def led(self, changed: Mapping[PartitionId, Leader]) -> "ClusterImage":
        """With other leaders of these partitions."""
        if not changed:
            return self
        leaders = dict(self.leaders)
        by_topic: dict[UUID, list[Leader]] = {}
        for one, leader in changed.items():
            by_topic.setdefault(one.topic_id, list(leaders[one.topic_id]))[one.partition] = leader
        leaders.update((topic_id, tuple(led)) for topic_id, led in by_topic.items())
        return replace(self, leaders=leaders)

    # Topics

    def created(self, topic: Topic, placement: Placement = ONE_REPLICA) -> "ClusterImage":
        """With a new topic. Raises TooFewBrokers.

        The first replica that lives leads each partition; where none is assigned, partitions go round the brokers, and
        the one that leads least begins.
        """
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, placement)

    def altered(self, topic: Topic, placement: Placement = ONE_REPLICA) -> "ClusterImage":
        """With other configs of a topic that exists, or more partitions, which are placed as those of a new one."""
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, placement)

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
            replicas={one: rows for one, rows in self.replicas.items() if one not in over},
            targets={one: target for one, target in self.targets.items() if one.topic_id not in over},
            deleting=self.deleting - over,
            topics={one: topic for one, topic in self.topics.items() if one not in over},
            leaders={one: led for one, led in leaders.items() if one not in over},
        )

    def configured(self, kind: str, name: str, configs: Mapping[str, str]) -> "ClusterImage":
        """With these configs of a resource that is no topic; none forgets the name."""
        kept = {other: own for other, own in self.configs.get(kind, {}).items() if other != name}
        return replace(self, configs={**self.configs, kind: {**kept, name: dict(configs)} if configs else kept})

    @staticmethod
    def _grown(image: "ClusterImage", topic: Topic, placement: Placement) -> "ClusterImage":
        led = list(image.leaders.get(topic.topic_id, ()))
        rows = list(image.replicas.get(topic.topic_id) or [ANY] * len(led))
        counts = image._load()[image._kind(topic.topic_id)]
        turn = sorted(counts, key=lambda node_id: (counts[node_id], node_id)) or [NOBODY]
        racks = [image.nodes[node_id].rack if node_id in image.nodes else None for node_id in turn]
        for number in range(topic.partitions - len(led)):
            if number < len(placement.assigned):
                replicas = tuple(placement.assigned[number])
            elif placement.factor > 1:
                replicas = place_replicas(turn, racks, number, placement.factor)
            else:
                replicas = ANY
            first = next((node_id for node_id in replicas if node_id in image.nodes), turn[number % len(turn)])
            led.append(Leader(first, image.first_epoch))
            rows.append(replicas if len(replicas) > 1 else ANY)
        leaders = {**image.leaders, topic.topic_id: tuple(led)}
        if not any(rows):
            return replace(image, leaders=leaders)
        return replace(image, leaders=leaders, replicas={**image.replicas, topic.topic_id: tuple(rows)})


Transition = Callable[[ClusterImage], ClusterImage]


def _least(counts: Counter[int]) -> int:
    return min(counts, key=lambda node_id: (counts[node_id], node_id), default=NOBODY)
