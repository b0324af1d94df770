"""A broker among several that share one database: it holds a lease, and loads the partitions that it begins to lead.

One thread renews the lease, is notified of new images (LISTEN), and takes over from brokers whose leases have ended.
Another thread loads partitions. A broker that could not renew its lease stops answering shortly before the lease ends,
until it has renewed it. A broker that was declared dead ends.
"""

import asyncio
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

import psycopg

from kohort.broker.cluster.following import ClusterFollower
from kohort.broker.cluster.following import Dependencies as FollowingParts
from kohort.broker.cluster.lease import BEATS, Lease
from kohort.errors import KohortError
from kohort.log import DataDirectoryInUse, SegmentedLog
from kohort.log.cluster import ClusterImage, Fenced, PartitionId, Transition, is_held
from kohort.log.postgres import ClusterDatabase, Connection, LeaseRenewal, PostgresStore, Session


class Dependencies(FollowingParts, Protocol):
    """The parts of the broker that this module uses."""

    fenced: Callable[[], bool] | None

    def end(self, why: str) -> None: ...

    @property
    def stopping(self) -> bool: ...


log = logging.getLogger("kohort.broker")

_LATE_MS = 5
"""Delay after the end of a lease before others check it."""
_JOIN_WITHIN_S = 10.0
_AGAIN_S = 0.1
_LOAD_AGAIN_S = 0.5


def open_database_store(dsn: str, node_id: int, cluster_id: str | None = None) -> PostgresStore:
    """Connect to the database and return its store. Raise BadDatabase."""
    home = ClusterDatabase(dsn, node_id, cluster_id)
    prefix = f"kohort-{home.cluster_id}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not is_held(left / "lock"):  # left by a broker that was killed
            shutil.rmtree(left, ignore_errors=True)
    return PostgresStore(home, Path(tempfile.mkdtemp(prefix=prefix)))


class DatabaseCluster(ClusterFollower):
    """A broker's membership in a cluster over a database."""

    _broker: Dependencies

    def __init__(self, broker: Dependencies, store: PostgresStore) -> None:
        super().__init__(broker, store)
        self._logs = store
        self._home = store.home
        self._lease_ms = broker.config.number("broker.lease.ms")
        self._lease = Lease(self._lease_ms)
        """This broker's lease, by the monotonic clock; the keeper thread renews it."""
        self._loop = asyncio.get_running_loop()
        self._keeper: threading.Thread | None = None
        self._closing = threading.Event()
        self._loader = ThreadPoolExecutor(1, "kohort-loader")
        self._loading: set[PartitionId] = set()
        self._clearing: asyncio.Task[None] | None = None
        broker.fenced = self.fenced
        store.writer.give_up = lambda: broker.stopping and self.fenced()

    def fenced(self) -> bool:
        """Return whether another broker may by now lead the partitions that this broker leads."""
        return self._lease.fenced(time.monotonic())

    # Join and leave

    async def join(self) -> None:
        give_up_at = time.monotonic() + max(_JOIN_WITHIN_S, 2 * self._lease_ms / 1000)
        while True:
            began = time.monotonic()
            try:
                image = await asyncio.to_thread(self._home.join, self._own_node, self._lease_ms)
                break
            except DataDirectoryInUse:  # held by a process that died, until its lease ends
                if began > give_up_at:
                    raise
            except OSError as error:
                if began > give_up_at:
                    raise KohortError(f"cannot join the cluster in the database: {error}") from error
            await asyncio.sleep(_AGAIN_S)
        self._lease.renewed(began)
        self._keeper = threading.Thread(target=self._keep, args=(image.version,), name="kohort-keeper", daemon=True)
        self._keeper.start()
        self._store.follow(image)
        self._catch_up(lead=False)
        self._load_more()
        self._clearing = self._loop.create_task(self._drop_expired_tables())

    async def leave(self) -> None:
        self._closing.set()
        self._loader.shutdown(wait=False, cancel_futures=True)
        if self._keeper is None:
            return
        if self._clearing is not None:
            self._clearing.cancel()
            self._logs.stop_clearing()
        await self._leave()
        await asyncio.to_thread(self._keeper.join)
        await asyncio.to_thread(self._loader.shutdown)

    async def _change(self, transition: Transition) -> ClusterImage:
        return await asyncio.to_thread(self._home.change_aside, transition)

    # The keeper's thread

    def _keep(self, version: int) -> None:
        # Not durable: a database that crashes may forget the last renewals, but brokers declare others dead only after
        # they themselves have watched for a whole lease since.
        session = self._home.session("keeper", self._lease_ms, durable=False)
        keeper = _LeaseThread(self._home, session, self._lease_ms, version)
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                news = keeper.heartbeat(began)
                self._lease.renewed(began)
                if news is not None:
                    self._tell(partial(self._news, news))
                keeper.listen()
            except Fenced as error:
                self._lease.lost()
                self._tell(partial(self._over, str(error)))
                break
            except OSError as error:
                log.warning("the lease cannot be renewed, trying again: %s", error)
                keeper.interrupted()
                self._closing.wait(_AGAIN_S)
        session.close()

    def _tell(self, call: Callable[[], None]) -> None:
        if not self._closing.is_set():
            self._loop.call_soon_threadsafe(call)

    def _over(self, why: str) -> None:
        self._broker.end(f"{why}: other brokers lead its partitions now. Restart this broker.")

    # Following

    def _news(self, image: ClusterImage) -> None:
        if self._closing.is_set():
            return
        try:
            if image.version > self._store.image.version:
                self._store.follow(image)
            self._catch_up()
            self._hand_over_requested()
            self._load_more()
        except OSError as error:  # retried with the next image or after a delay
            log.warning("cannot follow the cluster, trying again: %s", error)
            self._loop.call_later(_LOAD_AGAIN_S, self._news, image)

    def _load_more(self) -> None:
        """Let the loader read the partitions that this broker will lead, those of coordinators first."""
        topics = [self._store.image.named(name) for name in self._coordinators]
        first = {topic.topic_id for topic in topics if topic is not None}
        wanted = [partition for partition in self._logs.wanted() if partition not in self._loading]
        for partition in sorted(wanted, key=lambda partition: partition.topic_id not in first):
            self._loading.add(partition)
            loaded = self._loop.run_in_executor(self._loader, self._logs.load, partition)
            loaded.add_done_callback(partial(self._loaded, partition))

    async def _drop_expired_tables(self) -> None:
        """Drop the tables of records that retention has deleted, periodically."""
        while True:
            await asyncio.sleep(self._broker.config.number("log.retention.check.interval.ms") / 1000)
            try:
                gone = await asyncio.to_thread(self._logs.drop_expired_time_partitions)
                if gone:
                    log.info("dropped the expired tables %s", ", ".join(gone))
            except OSError as error:
                log.warning("expired tables are not dropped yet: %s", error)

    def _loaded(self, partition: PartitionId, future: "asyncio.Future[SegmentedLog]") -> None:
        self._loading.discard(partition)
        if self._closing.is_set() or future.cancelled():
            return
        error = future.exception()
        if error is None:
            if not self._logs.loaded(partition, future.result()):
                self._load_more()  # it may have moved to another broker and back while it was read
            else:
                self._coordinate([partition])
            return
        if not isinstance(error, KeyError):  # deleted meanwhile
            log.error("cannot load %s, trying again: %s", partition, error, exc_info=not isinstance(error, OSError))
        self._loop.call_later(_LOAD_AGAIN_S, self._load_more)


class _LeaseThread:
    """The work of the keeper thread on its connection."""

    def __init__(self, home: ClusterDatabase, session: Session, lease_ms: int, version: int) -> None:
        self._home = home
        self._session = session
        self._lease_ms = lease_ms
        self._version = version
        """Version of the last image that was passed on."""
        self._listening: Connection | None = None
        self._rest_s = 0.0
        """Seconds until the next heartbeat."""
        self._looks_since = 0.0
        """Time since which this broker has watched the others without a break.

        It may declare others dead only after a whole lease: before, the database may have been unreachable for them.
        """

    def heartbeat(self, now: float) -> ClusterImage | None:
        """Renew the lease; return the image if it is new. Raise Fenced or DatabaseTrouble."""
        with self._session.doing() as connection:
            if connection is not self._listening:
                connection.execute("LISTEN kohort")
                self._listening, self._looks_since = connection, now
            heartbeat = self._home.heartbeat(connection, self._lease_ms)
            if not heartbeat.lives:
                raise Fenced(f"broker {self._home.node_id} was declared dead")
            self._rest_s = self._seconds_to_next_renewal(heartbeat, now)
            image: ClusterImage | None = None
            if heartbeat.late and (now - self._looks_since) * 1000 >= self._lease_ms:
                image = self._take_over(connection, heartbeat.late)
            elif heartbeat.version != self._version:
                image = self._home.fetch(connection)
            if image is not None:
                self._version = image.version
            return image

    def _take_over(self, connection: Connection, late: Sequence[int]) -> ClusterImage | None:
        """Return the image without these brokers; None if it is locked. Raise psycopg.Error if the connection fails."""
        try:
            with connection.transaction():
                image, dead = self._home.take_over(connection, late)
        except psycopg.errors.LockNotAvailable as error:
            log.warning("the lease of broker %s expired, but its partitions cannot be taken over yet: %s", late, error)
            self._rest_s = _AGAIN_S
            return None
        if dead:
            log.warning("the lease of broker %s expired; the other brokers lead its partitions now", dead)
        return image

    def listen(self) -> None:
        """Wait until there is a new image, or the next heartbeat is due."""
        with self._session.doing() as connection:
            for _ in connection.notifies(timeout=self._rest_s, stop_after=1):
                pass

    def _seconds_to_next_renewal(self, heartbeat: LeaseRenewal, now: float) -> float:
        """Return the seconds until the next heartbeat.

        The keeper also wakes up when another broker's lease ends without renewal, so that no group waits longer.
        """
        rest_s = self._lease_ms / 1000 / BEATS
        if heartbeat.late:  # until this broker has watched for long enough
            rest_s = min(rest_s, max(0.0, self._looks_since + self._lease_ms / 1000 - now))
        if heartbeat.next_ms is not None:
            rest_s = min(rest_s, (heartbeat.next_ms + _LATE_MS) / 1000)
        return rest_s

    def interrupted(self) -> None:
        """Restart the watch after the database did not answer: returning brokers must renew their leases first."""
        self._looks_since = float("inf")
        self._listening = None
        self._session.close()
