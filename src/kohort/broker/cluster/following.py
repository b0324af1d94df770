"""A broker's part in a cluster over any shared store: it follows the image, and gives and takes partitions."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.fetch import WaitingFetches
from kohort.broker.groups import GroupCoordinator
from kohort.broker.logs import INTERNAL_TOPICS, Topics, Writer
from kohort.broker.transactions import TransactionCoordinator
from kohort.log import AllConfigs, LogStore, Topic
from kohort.log.cluster import (
    NOBODY,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    ClusterImage,
    Leader,
    Node,
    PartitionId,
    Placement,
    Replicas,
    SharedStore,
    Transition,
    replicas_for_clients,
    with_preferred_leaders,
    with_reassignments,
    without_reassignments,
)


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    node_id: int
    store: LogStore
    topics: Topics
    waiting_fetches: WaitingFetches
    writer: Writer

    @property
    def own_node(self) -> Node: ...

    def configs_changed(self, before: AllConfigs, now: AllConfigs) -> None: ...


log = logging.getLogger("kohort.broker")

_REPLICATION = {TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor"}
"""The setting with the replication factor of an internal topic, unless it is that of the offsets."""
_GIVE_AGAIN_S = 0.1
"""Interval between two attempts to give partitions away, in seconds."""


class Coordinator(Protocol):
    """What coordinates with the partitions of an internal topic that this broker leads."""

    def lead(self, partitions: Iterable[int]) -> None: ...

    def give_up(self, partitions: Iterable[int]) -> None: ...


class ClusterFollower:
    """The part of `Leadership` that all shared stores have in common; subclasses detect dead brokers and changes."""

    def __init__(self, broker: Dependencies, store: SharedStore) -> None:
        self._broker = broker
        self._store = store
        self._followed = store.image
        """The image that the broker's topics, configs and coordinators reflect."""
        self._listeners: frozenset[frozenset[str]] = frozenset()
        """Names of the listeners that brokers have; more than one set if they differ."""
        self._giving: asyncio.Task[None] | None = None
        self._leaving = False

    # The view of the cluster

    @property
    def nodes(self) -> Sequence[Node]:
        return tuple(self._store.image.nodes.values())

    def node(self, node_id: int) -> Node | None:
        return self._store.image.nodes.get(node_id)

    @property
    def registered(self) -> Collection[int]:
        return self._store.image.registered

    @property
    def controller_id(self) -> int:
        return min(self._store.image.nodes, default=NOBODY)

    def leads(self, topic: Topic, partition: int) -> bool:
        return self._store.leads(PartitionId(topic.topic_id, partition))

    def leader(self, topic: Topic, partition: int) -> Leader:
        leaders = self._store.image.leaders.get(topic.topic_id)
        # The image may be newer than the topic: another broker has deleted it, and this one has yet to follow.
        return Leader(NOBODY, -1) if leaders is None else leaders[partition]

    def replicas(self, topic: Topic, partition: int) -> Replicas:
        image = self._store.image
        if topic.topic_id not in image.leaders:
            return Replicas()
        # Every broker coordinates groups, so these topics have no replicas of their own and any broker may lead them.
        internal = topic.name in INTERNAL_TOPICS
        setting = _REPLICATION.get(topic.name, "offsets.topic.replication.factor")
        factor = self._broker.config.number(setting) if internal else 1
        return replicas_for_clients(image, PartitionId(topic.topic_id, partition), factor)

    def create(self, topic: Topic, placement: Placement) -> None:
        self._store.create_topic(topic, placement)

    def grow(self, topic: Topic, placement: Placement) -> None:
        self._store.alter_topic(topic, placement)

    def reassign(self, wanted: Mapping[PartitionId, tuple[int, ...]], over: Iterable[PartitionId]) -> None:
        over = list(over)
        self._store.follow(
            self._store.home.change(lambda image: without_reassignments(with_reassignments(image, wanted), over))
        )

    def elect(self, ones: Iterable[PartitionId]) -> None:
        ones = list(ones)
        self._store.follow(self._store.home.change(lambda image: with_preferred_leaders(image, ones)))

    def catch_up(self) -> None:
        image = self._store.home.read()
        if image.version > self._store.image.version:
            self._store.follow(image)
            self._catch_up()

    @property
    def _own_node(self) -> Node:
        return self._broker.own_node

    # Following the image

    def _catch_up(self, *, lead: bool = True) -> None:
        """Update topics, configs and coordinators to the store's image."""
        if self._store.image is self._followed:
            return
        before, image = self._followed, self._store.image
        self._followed = image
        broker = self._broker
        if image.nodes != before.nodes:
            self._compare_listeners(image)
        if image.topics != before.topics or image.deleting != before.deleting:
            gone = broker.topics.refresh()
            if gone:
                broker.groups.topics_deleted(gone)
                broker.waiting_fetches.check_all()
        elif any(node.rack for node in image.nodes.values()) and (
            image.leaders != before.leaders or image.replicas != before.replicas
        ):
            broker.topics.changed()
        if image.configs != before.configs:
            broker.configs_changed(before.configs, image.configs)
        if lead:
            self._lead_more(before, image)
        if any(led.topic_id in image.deleting for led, _ in image.led_by(broker.node_id)):
            self._store.remove_deleted()
            broker.writer.current()

    def _compare_listeners(self, image: ClusterImage) -> None:
        """Log a warning when the brokers begin to have different listeners."""
        before, self._listeners = self._listeners, frozenset(node.listeners for node in image.nodes.values())
        if len(self._listeners) > 1 and self._listeners != before:
            log.warning(
                "brokers have different listeners, and clients of a listener see only the brokers that have it: %s",
                "; ".join(
                    f"broker {node_id} {', '.join(sorted(node.listeners))}" for node_id, node in image.nodes.items()
                ),
            )

    def _lead_more(self, before: ClusterImage, image: ClusterImage) -> None:
        topics = [
            topic
            for name in self._coordinators
            if (topic := image.named(name)) is not None
            and image.leaders[topic.topic_id] != before.leaders.get(topic.topic_id)
        ]
        if not topics:
            return
        # By epoch: a partition that this broker gave away may be back before the broker follows the image again.
        had = {(partition, leader.epoch) for partition, leader in before.led_by(self._broker.node_id)}
        has = [(partition, leader.epoch) for partition, leader in image.led_by(self._broker.node_id)]
        self._coordinate(partition for partition, epoch in has if (partition, epoch) not in had)

    @property
    def _coordinators(self) -> Mapping[str, "Coordinator"]:
        """The coordinators of this broker, by the topic that has their state."""
        return {OFFSETS_TOPIC: self._broker.groups, TRANSACTIONS_TOPIC: self._broker.transactions}

    def _coordinate(self, gained: Iterable[PartitionId]) -> None:
        """Begin to coordinate with those of these partitions that are of a coordinator."""
        for coordinator, partitions in self._by_coordinator(gained):
            coordinator.lead(partitions)

    def _by_coordinator(self, ones: Iterable[PartitionId]) -> list[tuple["Coordinator", list[int]]]:
        ones = list(ones)
        found = []
        for name, coordinator in self._coordinators.items():
            topic = self._store.image.named(name)
            if topic is not None:
                found.append((coordinator, [one.partition for one in ones if one.topic_id == topic.topic_id]))
        return [(coordinator, partitions) for coordinator, partitions in found if partitions]

    # Giving partitions away

    def _hand_over_requested(self) -> None:
        """Begin to give away the partitions that others should lead, unless that is in progress."""
        if self._giving is not None or self._leaving:
            return
        self._keep_unrequested()
        image = self._store.image
        wanted = [
            partition
            for partition, leader in image.led_by(self._broker.node_id)
            if leader.following != NOBODY and partition.topic_id not in image.deleting
        ]
        if wanted:
            self._giving = asyncio.get_running_loop().create_task(self._give(wanted))

    def _keep_unrequested(self) -> None:
        """Lead partitions again whose move was cancelled, or whose new leader died."""
        kept = self._store.kept
        if not kept:
            return
        self._store.take_back(kept)
        self._coordinate(kept)
        log.info("keep %d partitions that were to be given to other brokers", len(kept))

    async def _give(self, ones: Collection[PartitionId]) -> None:
        """Give partitions to their next leaders: refuse requests, sync, close the logs, and change the image."""
        broker = self._broker
        try:
            for coordinator, partitions in self._by_coordinator(ones):
                coordinator.give_up(partitions)
            self._store.stop_leading(ones)
            logs = broker.topics.release_topic(ones)
            broker.waiting_fetches.moved(logs)
            await broker.writer.drain()
            closed = [
                partition for partition in ones if not self._store.compacts(partition)
            ]  # the next attempt gives the others
            self._store.close_stopped(closed)
            self._store.given_up(closed, await self._change(lambda image: image.handed_over(closed)))
            log.info("gave %d partitions to other brokers", len(closed))
        except OSError as error:
            log.warning("cannot give partitions to other brokers yet: %s", error)
        finally:
            self._giving = None
            # Until it can be given, clients cannot use such a partition, and over a database nothing else tries again
            # before the image changes.
            asyncio.get_running_loop().call_later(_GIVE_AGAIN_S, self._hand_over_requested)

    async def _change(self, transition: Transition) -> ClusterImage:
        """Change the image and return it. Raise OSError."""
        return self._store.home.change(transition)

    async def _leave(self) -> None:
        """Give all partitions away and leave the cluster."""
        self._leaving = True
        if self._giving is not None:
            await self._giving
        node_id = self._broker.node_id
        led = [partition for partition, _ in self._store.image.led_by(node_id)]
        self._store.stop_leading(led)
        try:
            self._store.close_stopped(led)
            self._store.given_up(led, await self._change(lambda image: image.without_broker(node_id)))
        except OSError as error:
            log.warning("left the cluster without deregistering, the other brokers will notice: %s", error)
