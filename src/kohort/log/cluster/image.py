"""State that all brokers of a cluster share: live brokers, topics, and the leader of each partition.

It is a value with transitions and no I/O. `directory.py` stores it in a file and allows one change
at a time.
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
"""Node ID of a partition without a leader, because no broker is alive."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
_ONLY_LISTENER = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class Node:
    """A live broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[tuple[str, str, int], ...] = ()
    """Name, host and port of each listener; empty if PLAINTEXT is the only one, at `host` and `port`."""

    @property
    def listeners(self) -> frozenset[str]:
        """Names of the listeners."""
        return frozenset(name for name, _, _ in self.endpoints) or frozenset({_ONLY_LISTENER})

    def at(self, listener: str) -> "Node | None":
        """Return the broker with the address for clients of this listener; None if it does not have the listener."""
        if not self.endpoints:
            return self if listener == _ONLY_LISTENER else None
        found = next((address for address in self.endpoints if address[0] == listener), None)
        return None if found is None else replace(self, host=found[1], port=found[2], endpoints=())


class Leader(NamedTuple):
    """Leader of a partition, and its leader epoch."""

    node_id: int
    epoch: int
    following: int = NOBODY
    """Broker to which the leader must hand over the partition, or NOBODY."""


class PartitionId(NamedTuple):
    """One partition; a recreated topic with the same name has other partitions."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """The cluster at one version."""

    version: int = 0
    first_epoch: int = 0
    """Leader epoch of partitions that had no leader before."""
    nodes: Mapping[int, Node] = field(default_factory=dict)
    registered: frozenset[int] = frozenset()
    """All brokers that have ever joined. As in Kafka, dead ones count for replication factors."""
    topics: Mapping[UUID, Topic] = field(default_factory=dict)
    leaders: Mapping[UUID, tuple[Leader, ...]] = field(default_factory=dict)
    """Leaders by topic and partition."""
    replicas: Mapping[UUID, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Replicas by topic and partition, preferred leader first.

    Topics with one replica per partition have no entry; other partitions with one replica have
    `ANY`.
    """
    targets: Mapping[PartitionId, tuple[int, ...]] = field(default_factory=dict)
    """Reassignments in progress: the replicas that a partition gets when one of them leads it."""
    deleting: frozenset[UUID] = frozenset()
    """Topics that are deleted for clients, but whose leaders have not removed their files yet."""
    configs: AllConfigs = field(default_factory=dict)

    def named(self, name: str) -> Topic | None:
        """Return the topic with that name, even if it is being deleted."""
        return next((topic for topic in self.topics.values() if topic.name == name), None)

    def leader(self, partition_id: PartitionId) -> Leader:
        """Return the partition's leader. Raises KeyError or IndexError if the partition does not exist."""
        return self.leaders[partition_id.topic_id][partition_id.partition]

    def replicas_of(self, partition_id: PartitionId) -> tuple[int, ...]:
        """Return the brokers that lead it before others do, preferred one first; `ANY` if there is no preference."""
        rows = self.replicas.get(partition_id.topic_id, ())
        return rows[partition_id.partition] if partition_id.partition < len(rows) else ANY

    def led_by(self, node_id: int) -> Iterator[tuple[PartitionId, Leader]]:
        """Yield the partitions that the broker leads, including those being deleted."""
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
        """Add a broker, which gets its share of the other brokers' partitions and those that prefer it.

        If the broker is already known, its death was not noticed: it keeps its partitions, in their
        next epochs.
        """
        again = {
            partition_id: leader._replace(epoch=leader.epoch + 1) for partition_id, leader in self.led_by(node.node_id)
        }
        nodes, registered = {**self.nodes, node.node_id: node}, self.registered | {node.node_id}
        there = replace(self.led(again), nodes=nodes, registered=registered)
        return there._adopted(NOBODY)._returned_to(node.node_id)._spread().with_reassignments_advanced()

    def without_broker(self, node_id: int) -> "ClusterImage":
        """Remove a broker that closed its partitions or is dead: others lead them in their next epochs."""
        if node_id not in self.nodes:
            return self
        left = replace(self, nodes={number: node for number, node in self.nodes.items() if number != node_id})
        return left._adopted(node_id).with_reassignments_advanced()

    def handed_over(self, partition_ids: Iterable[PartitionId]) -> "ClusterImage":
        """Hand over partitions that their leaders have closed."""
        changed = {
            partition_id: Leader(leader.following, leader.epoch + 1)
            for partition_id in partition_ids
            if (leader := self.leader(partition_id)).following in self.nodes
        }
        return self.led(changed).with_reassignments_advanced()

    def with_reassignments_advanced(self) -> "ClusterImage":
        """Advance reassignments.

        A reassignment is complete once a new replica leads; until then, the leader must hand over
        to one.
        """
        if not self.targets:
            return self
        targets, rows, changed = dict(self.targets), dict(self.replicas), {}
        for partition_id, target in self.targets.items():
            if partition_id.topic_id not in self.leaders or partition_id.topic_id in self.deleting:
                del targets[partition_id]
                continue
            leader = self.leader(partition_id)
            if leader.node_id in target:
                del targets[partition_id]
                of_topic = list(rows.get(partition_id.topic_id) or [ANY] * len(self.leaders[partition_id.topic_id]))
                of_topic[partition_id.partition] = target if len(target) > 1 else ANY
                rows[partition_id.topic_id] = tuple(of_topic)
                if not any(of_topic):
                    del rows[partition_id.topic_id]
                if leader.following not in target:
                    changed[partition_id] = leader._replace(following=NOBODY)
            elif leader.following not in target:
                heir = next((node_id for node_id in target if node_id in self.nodes), NOBODY)
                if heir != leader.following:
                    changed[partition_id] = leader._replace(following=heir)
        return replace(self.led(changed), targets=targets, replicas=rows)

    def _adopted(self, node_id: int) -> "ClusterImage":
        """Assign the partitions that `node_id` led, or was to lead, to other brokers."""
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                partition_id = PartitionId(topic_id, partition)
                if leader.node_id == node_id:
                    heir = self._heir(partition_id, leader, counts)
                    counts[heir] += 1
                    changed[partition_id] = Leader(heir, leader.epoch + 1)
                elif leader.following == node_id != NOBODY:
                    changed[partition_id] = Leader(leader.node_id, leader.epoch)
        return self.led(changed)

    def _heir(self, partition_id: PartitionId, leader: Leader, counts: Counter[int]) -> int:
        """Return the broker that takes over: a replica, if one is alive."""
        preferred = (leader.following, *self.targets.get(partition_id, ANY), *self.replicas_of(partition_id))
        return next((node_id for node_id in preferred if node_id in self.nodes), _least(counts))

    def _returned_to(self, node_id: int) -> "ClusterImage":
        """Let the broker lead partitions that prefer it, and those that none of their replicas leads."""
        changed: dict[PartitionId, Leader] = {}
        for topic_id, rows in self.replicas.items():
            for partition, replicas in enumerate(rows):
                partition_id = PartitionId(topic_id, partition)
                leader = self.leader(partition_id)
                if (
                    topic_id in self.deleting
                    or node_id not in replicas
                    or partition_id in self.targets
                    or leader.node_id in (node_id, NOBODY)
                ):
                    continue
                if replicas[0] == node_id or leader.node_id not in replicas:
                    changed[partition_id] = leader._replace(following=node_id)
        return self.led(changed)

    def _spread(self) -> "ClusterImage":
        """Move as few partitions as possible so that no broker leads two more of a kind than another.

        Partitions with replicas, or with a reassignment to some, do not move.
        """
        load = self._load()
        changed: dict[PartitionId, Leader] = {}
        for topic_id, leaders in self.leaders.items():
            counts = load[self._kind(topic_id)]
            for partition, leader in enumerate(leaders):
                if topic_id in self.deleting or leader.following != NOBODY or leader.node_id not in counts:
                    continue
                partition_id = PartitionId(topic_id, partition)
                if self.replicas_of(partition_id) or partition_id in self.targets:
                    continue
                target = _least(counts)
                if counts[leader.node_id] - counts[target] >= 2:
                    counts[leader.node_id] -= 1
                    counts[target] += 1
                    changed[partition_id] = leader._replace(following=target)
        return self.led(changed)

    def _load(self) -> defaultdict[str, Counter[int]]:
        """Return the number of partitions of each kind that each broker will lead."""
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
        """Return the kind of a topic, within which partitions are balanced.

        Each internal topic is a kind of its own, so that every broker has coordinators and writes
        the journal.
        """
        name = self.topics[topic_id].name
        return name if name.startswith("__") else ""

    def led(self, changed: Mapping[PartitionId, Leader]) -> "ClusterImage":
        """Replace the leaders of these partitions."""
        if not changed:
            return self
        leaders = dict(self.leaders)
        by_topic: dict[UUID, list[Leader]] = {}
        for partition_id, leader in changed.items():
            by_topic.setdefault(partition_id.topic_id, list(leaders[partition_id.topic_id]))[partition_id.partition] = (
                leader
            )
        leaders.update((topic_id, tuple(led)) for topic_id, led in by_topic.items())
        return replace(self, leaders=leaders)

    # Topics

    def created(self, topic: Topic, placement: Placement = ONE_REPLICA) -> "ClusterImage":
        """Add a topic. Raises TooFewBrokers.

        The first live replica leads each partition. Partitions without assigned replicas are
        distributed in turn, beginning with the least loaded broker.
        """
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, placement)

    def altered(self, topic: Topic, placement: Placement = ONE_REPLICA) -> "ClusterImage":
        """Change a topic's configs or add partitions, which are placed like those of a new topic."""
        return self._grown(replace(self, topics={**self.topics, topic.topic_id: topic}), topic, placement)

    def deleted(self, topic_id: UUID) -> "ClusterImage":
        """Mark a topic as deleted; its leaders must remove its files."""
        return replace(self, deleting=self.deleting | {topic_id})

    def removed(self, node_id: int) -> "ClusterImage":
        """Record that the broker has removed the files of all deleted topics that it leads."""
        leaders = dict(self.leaders)
        for topic_id in self.deleting:
            leaders[topic_id] = tuple(
                leader._replace(node_id=NOBODY, following=NOBODY) if leader.node_id == node_id else leader
                for leader in leaders[topic_id]
            )
        over = {topic_id for topic_id in self.deleting if all(leader.node_id == NOBODY for leader in leaders[topic_id])}
        return replace(
            self,
            replicas={topic_id: rows for topic_id, rows in self.replicas.items() if topic_id not in over},
            targets={
                partition_id: target
                for partition_id, target in self.targets.items()
                if partition_id.topic_id not in over
            },
            deleting=self.deleting - over,
            topics={topic_id: topic for topic_id, topic in self.topics.items() if topic_id not in over},
            leaders={partition_id: led for partition_id, led in leaders.items() if partition_id not in over},
        )

    def configured(self, kind: str, name: str, configs: Mapping[str, str]) -> "ClusterImage":
        """Replace the configs of a non-topic resource; an empty mapping removes the resource."""
        kept = {other: own for other, own in self.configs.get(kind, {}).items() if other != name}
        return replace(self, configs={**self.configs, kind: {**kept, name: dict(configs)} if configs else kept})

    @staticmethod
    def _grown(image: "ClusterImage", topic: Topic, placement: Placement) -> "ClusterImage":
        led = list(image.leaders.get(topic.topic_id, ()))
        rows = list(image.replicas.get(topic.topic_id) or [ANY] * len(led))
        counts = image._load()[image._kind(topic.topic_id)]
        turn = sorted(counts, key=lambda node_id: (counts[node_id], node_id)) or [NOBODY]
        racks = [image.nodes[node_id].rack if node_id in image.nodes else None for node_id in turn]
        away = sorted(image.registered - image.nodes.keys()) if image.nodes else []
        for number in range(topic.partitions - len(led)):
            if number < len(placement.assigned):
                replicas = tuple(placement.assigned[number])
            elif placement.factor > 1:
                replicas = place_replicas(turn, racks, number, placement.factor, away)
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
