"""One of several brokers over one directory: it watches the others, and gives and takes partitions.

Every few milliseconds it says that it works, looks whether the others live, and whether the image is another one.
Whoever sees first that a broker is dead shares its partitions out; the others follow the image. A broker whose
process stands still keeps its locks, so it is ended first.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.broker.topics import OFFSETS_TOPIC
from kohort.errors import KohortError
from kohort.log.api import Topic
from kohort.log.cluster import NOBODY, Beat, ClusterImage, Leader, Node, PartitionId
from kohort.log.cluster.store import ClusterStore

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")

_LOOK_EVERY_S = 0.02
"""A dead broker is noticed, and a change of the image followed, so late at most."""
_JOIN_WITHIN_S = 10.0


@dataclass(slots=True)
class _Seen:
    """What was seen of another broker."""

    beat: Beat | None
    looks: int = 0
    """How often this broker has looked since that beat: if it stood still itself, it has seen nothing."""


class Shared:
    """A broker's part in its cluster."""

    def __init__(self, broker: "Broker", store: ClusterStore) -> None:
        self._broker = broker
        self._store = store
        self._directory = store.directory
        self._followed = store.image
        """The image that the broker's topics, configs and coordinators are at."""
        self._seen: dict[int, _Seen] = {}
        self._giving: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    # The view

    @property
    def nodes(self) -> Sequence[Node]:
        return tuple(self._store.image.nodes.values())

    def node(self, node_id: int) -> Node | None:
        return self._store.image.nodes.get(node_id)

    @property
    def controller_id(self) -> int:
        return min(self._store.image.nodes, default=NOBODY)

    def leads(self, topic: Topic, partition: int) -> bool:
        return self._store.leads(PartitionId(topic.topic_id, partition))

    def leader(self, topic: Topic, partition: int) -> Leader:
        return self._store.image.leader(PartitionId(topic.topic_id, partition))

    # Life

    async def join(self) -> None:
        broker = self._broker
        node = Node(broker.node_id, broker.host, broker.port, broker.rack)
        give_up_at = time.monotonic() + _JOIN_WITHIN_S
        while True:
            try:
                image = self._directory.change(lambda image: self._without_dead(image).joined(node))
                break
            except OSError as error:
                if time.monotonic() > give_up_at:
                    raise KohortError(f"cannot join the cluster in {self._directory.path}: {error}") from error
                await asyncio.sleep(_LOOK_EVERY_S)
        self._store.follow(image)
        self._follow(image, lead=False)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def leave(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        if self._giving is not None:
            await self._giving
        node_id = self._broker.node_id
        led = [one for one, _ in self._store.image.led_by(node_id)]
        self._store.stop_leading(led)
        try:
            self._store.give_up(led, lambda image: image.gone(node_id))
        except OSError as error:
            log.warning("left the cluster without a word, the others will see it: %s", error)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self._look()
            except OSError as error:  # of the directory, or somebody is just changing the image
                log.warning("cannot look after the cluster, trying again: %s", error)
            except Exception:  # our bug: without this task the broker would hold on to what it leads
                log.exception("looking after the cluster failed")

    def _look(self) -> None:
        self._directory.beat()
        self._look_after_others()
        if self._directory.changed():
            self._store.follow(self._directory.read())
        if self._store.image is not self._followed:
            self._follow(self._store.image)
        wanted = self._wanted_elsewhere()
        if wanted and self._giving is None:
            self._giving = asyncio.get_running_loop().create_task(self._give(wanted))

    # The others

    def _look_after_others(self) -> None:
        nodes = self._store.image.nodes
        dead = [one for one in nodes if one != self._broker.node_id and not self._directory.lives(one)]
        if dead:
            image = self._directory.change(self._without_dead)
            log.warning("broker %s ended; the others lead its partitions now", ", ".join(map(str, dead)))
            self._store.follow(image)
        for node_id in nodes:
            if node_id != self._broker.node_id and node_id not in dead:
                self._end_if_still(node_id)

    def _without_dead(self, image: ClusterImage) -> ClusterImage:
        for node_id in image.nodes:
            if node_id != self._broker.node_id and not self._directory.lives(node_id):
                image = image.gone(node_id)
        return image

    def _end_if_still(self, node_id: int) -> None:
        """A process that stands still would write when it goes on; only its end releases what it leads."""
        beat = self._directory.last_beat(node_id)
        seen = self._seen.setdefault(node_id, _Seen(beat))
        if seen.beat != beat:
            self._seen[node_id] = _Seen(beat)
            return
        seen.looks += 1
        lease_ms = self._broker.config.number("broker.session.timeout.ms")
        if beat is None or seen.looks * _LOOK_EVERY_S * 2000 < lease_ms or beat.age_ms() < lease_ms:
            return
        log.error("broker %d (process %d) stood still for %d ms: it is killed", node_id, beat.process_id, lease_ms)
        self._seen.pop(node_id)
        if beat.process_id != os.getpid():
            try:
                os.kill(beat.process_id, signal.SIGKILL)
            except OSError as error:
                log.error("cannot kill process %d: %s; do it by hand", beat.process_id, error)

    # Following the image

    def _follow(self, image: ClusterImage, *, lead: bool = True) -> None:
        before, self._followed = self._followed, image
        broker = self._broker
        if image.topics != before.topics or image.deleting != before.deleting:
            gone = broker.topics.refresh()
            if gone:
                broker.groups.topics_deleted(gone)
                broker.parked_fetches.look_at_all()
        elif any(node.rack for node in image.nodes.values()) and image.leaders != before.leaders:
            broker.topics.changed()
        if image.configs != before.configs:
            broker.configs_changed(before.configs, image.configs)
        if lead:
            self._lead_more(before, image)
        if any(one.topic_id in image.deleting for one, _ in image.led_by(broker.node_id)):
            self._store.remove_deleted()
            broker.writer.current()

    def _lead_more(self, before: ClusterImage, image: ClusterImage) -> None:
        topic = image.named(OFFSETS_TOPIC)
        if topic is None or image.leaders[topic.topic_id] == before.leaders.get(topic.topic_id):
            return
        had = {one for one, _ in before.led_by(self._broker.node_id)}
        has = [one for one, _ in image.led_by(self._broker.node_id) if one.topic_id == topic.topic_id]
        self._broker.groups.lead(one.partition for one in has if one not in had)

    # Giving

    def _wanted_elsewhere(self) -> list[PartitionId]:
        image = self._store.image
        return [
            one
            for one, leader in image.led_by(self._broker.node_id)
            if leader.following != NOBODY and one.topic_id not in image.deleting
        ]

    async def _give(self, ones: Collection[PartitionId]) -> None:
        """Give partitions to the brokers that shall lead them: refuse requests, sync what waits, close, and tell."""
        broker = self._broker
        try:
            offsets = broker.topics.named(OFFSETS_TOPIC)
            assert offsets is not None
            broker.groups.give_up(one.partition for one in ones if one.topic_id == offsets.topic_id)
            self._store.stop_leading(ones)
            logs = broker.topics.let_go(ones)
            broker.parked_fetches.moved(logs)
            await broker.writer.drain()
            closed = [one for one in ones if not self._store.compacts(one)]  # the others' turn comes with the next look
            self._store.give_up(closed, lambda image: image.given(closed))
            log.info("gave %d partitions to other brokers", len(closed))
        except OSError as error:
            log.warning("cannot give partitions to other brokers yet: %s", error)
        finally:
            self._giving = None
