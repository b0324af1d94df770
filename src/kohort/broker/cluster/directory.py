"""A broker among several that share one directory: it watches the others.

Every few milliseconds it writes its heartbeat, checks whether the others live, and whether the image has changed. The
first broker to see that another is dead reassigns its partitions; the others follow the image. A broker whose process
is suspended keeps its locks, so it is killed first.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kohort.broker.cluster.following import ClusterFollower
from kohort.broker.cluster.following import Dependencies as FollowingParts
from kohort.broker.fetch import FollowerReads
from kohort.errors import KohortError
from kohort.log.cluster import BrokerState, Busy, ClusterImage, ClusterStore, ProcessIdentity, kill_process


class Dependencies(FollowingParts, Protocol):
    """The parts of the broker that this module uses."""

    follower_reads: FollowerReads


log = logging.getLogger("kohort.broker")

_LOOK_EVERY_S = 0.02
"""Maximum delay before a dead broker or a changed image is noticed, in seconds."""
_JOIN_WITHIN_S = 10.0


@dataclass(slots=True)
class _LastHeartbeat:
    """What this broker has observed of another one."""

    heartbeat: BrokerState | None
    since: float
    """When the heartbeat was first seen; this broker has watched ever since."""
    at: float
    """When the heartbeat was last seen."""


class DirectoryCluster(ClusterFollower):
    """A broker's membership in a cluster over a directory."""

    _broker: Dependencies

    look_every_s = _LOOK_EVERY_S
    clock: Callable[[], float] = staticmethod(time.monotonic)
    kill: Callable[[ProcessIdentity], None] = staticmethod(kill_process)
    """Ends a process. Apart from the directory and the loop, `clock` and `kill` are its only outside dependencies."""

    def __init__(self, broker: Dependencies, store: ClusterStore) -> None:
        super().__init__(broker, store)
        self._directory = store.directory
        self._seen: dict[int, _LastHeartbeat] = {}
        self._left_alone: dict[int, BrokerState] = {}
        """The last heartbeats of suspended brokers that this one cannot kill."""
        self._task: asyncio.Task[None] | None = None

    # Join and leave

    async def join(self) -> None:
        give_up_at = self.clock() + _JOIN_WITHIN_S
        while True:
            try:
                image = self._directory.change(lambda image: self._without_dead(image).joined(self._own_node))
                break
            except OSError as error:
                if self.clock() > give_up_at:
                    raise KohortError(f"cannot join the cluster in {self._directory.path}: {error}") from error
                await asyncio.sleep(self.look_every_s)
        self._store.follow(image)
        self._catch_up(lead=False)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def leave(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        await self._leave()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self.look_every_s)
            try:
                self._look()
            except OSError as error:  # of the directory, or because another broker is changing the image
                log.warning("cannot check the cluster, trying again: %s", error)
            except Exception:  # a bug: without this task the broker would never give up its partitions
                log.exception("checking the cluster failed")

    def _look(self) -> None:
        self._directory.heartbeat()
        self._check_others()
        if self._directory.changed():
            self._store.follow(self._directory.read())
        self._catch_up()
        self._hand_over_requested()
        self._broker.follower_reads.look()

    # Watching the other brokers

    def _check_others(self) -> None:
        nodes = self._store.image.nodes
        others = [other for other in nodes if other != self._broker.node_id]
        dead = [other for other in others if not self._directory.is_alive(other)]
        # First, because a suspended broker may hold the image's lock, so that nothing can change until it is killed.
        for node_id in others:
            if node_id not in dead:
                self._end_if_still(node_id)
        if not dead:
            return
        try:
            image = self._directory.change(self._without_dead)
        except Busy:
            for node_id in self._directory.joining(nodes):
                self._end_if_still(node_id)
            raise
        log.warning("broker %s ended; the others lead its partitions now", ", ".join(map(str, dead)))
        self._store.follow(image)

    def _without_dead(self, image: ClusterImage) -> ClusterImage:
        for node_id in image.nodes:
            if node_id != self._broker.node_id and not self._directory.is_alive(node_id):
                image = image.without_broker(node_id)
        return image

    def _end_if_still(self, node_id: int) -> None:
        """Kill a suspended process: it would write when it resumes, and only its end releases what it leads."""
        heartbeat, now = self._directory.last_heartbeat(node_id), self.clock()
        lease_ms = self._broker.config.number("broker.session.timeout.ms")
        seen = self._seen.get(node_id)
        # If this broker was suspended itself, it could not see the others' heartbeats.
        if seen is None or seen.heartbeat != heartbeat or (now - seen.at) * 4000 > lease_ms:
            self._seen[node_id] = _LastHeartbeat(heartbeat, now, now)
            return
        seen.at = now
        if (
            heartbeat is None
            or (now - seen.since) * 2000 < lease_ms
            or not self._is_late(heartbeat, now - seen.since, lease_ms)
        ):
            return
        self._seen.pop(node_id)
        if heartbeat.process != self._directory.process:
            self._end(node_id, heartbeat, lease_ms)

    def _is_late(self, heartbeat: BrokerState, seen_s: float, lease_ms: int) -> bool:
        if heartbeat.process.is_reachable_from(self._directory.process):
            return self._directory.now_ms() - heartbeat.at_ms >= lease_ms
        return seen_s * 1000 >= lease_ms  # the heartbeat's time may be by another machine's clock

    def _end(self, node_id: int, heartbeat: BrokerState, lease_ms: int) -> None:
        named = f"broker {node_id} (process {heartbeat.process.process_id}) did not run for {lease_ms} ms"
        try:
            self.kill(heartbeat.process)
        except OSError as error:
            if self._left_alone.get(node_id) != heartbeat:
                self._left_alone[node_id] = heartbeat
                log.error(
                    "%s and cannot be ended: %s. End it by hand; no other broker can lead its partitions before",
                    named,
                    error,
                )
        else:
            log.error("%s: it was killed", named)
