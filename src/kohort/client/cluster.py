"""A client's view of one cluster: its brokers, who leads what, and a connection to each when it is needed."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Self, TypeVar

from kohort.client.closing import undisturbed
from kohort.client.connection import Connection
from kohort.client.metadata import ClusterMetadata, Leader
from kohort.client.options import ClientOptions, read_options
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

_log = logging.getLogger(__name__)

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")

Watcher = Callable[[Mapping[str, int], frozenset[str]], None]
"""Told the partition counts of the topics that exist, and all that it watches."""

Question = Message | Callable[[Connection], Message]
"""A request, or how to make it for a connection whose versions are known."""

_NO_NODE = -(2**31)
_BOOTSTRAP = "bootstrap"
_MANY_KEYS = 4  # KIP-699: from this version on FindCoordinator takes a list

_Key = tuple[int, str]
"""A connection's broker and what it is for."""


class Cluster:
    """Connects when first used. Belongs to the event loop in which it was made."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.metadata = ClusterMetadata()
        self._loop = asyncio.get_running_loop()
        self._bootstrap = options.addresses()
        self._connections: dict[_Key, Connection] = {}
        self._connecting: dict[_Key, asyncio.Task[Connection]] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        self._watchers: dict[object, tuple[frozenset[str], Watcher]] = {}
        self._topics: set[str] = set()
        self._refresher: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._refreshed: list[asyncio.Future[None]] = []
        self._look_again: asyncio.TimerHandle | None = None
        self._closed = False

    @classmethod
    def of(cls, bootstrap_servers: str, **options: Any) -> Self:
        """With options by name."""
        return cls(read_options(ClientOptions, {"bootstrap_servers": bootstrap_servers, **options}))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Closing twice is fine."""
        self._closed = True
        await undisturbed(self._close())

    async def _close(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
        tasks: list[asyncio.Task[Any]] = [*self._connecting.values()]
        if self._refresher is not None:
            tasks.append(self._refresher)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._refreshed:
            if not future.done():
                future.set_exception(self._closed_error())
        self._refreshed.clear()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            await connection.close()
        if connections:
            await asyncio.sleep(0)  # the transports tell the loop in its next turn that they are gone

    # -- metadata

    def watch(self, who: object, topics: frozenset[str], watcher: Watcher) -> None:
        """Tell `watcher` now (as soon as it is known) and whenever the partition counts of `topics` change."""
        self._watchers[who] = (topics, watcher)
        self._topics |= topics
        self.want_metadata()

    def unwatch(self, who: object) -> None:
        """Stop telling."""
        self._watchers.pop(who, None)

    def want_metadata(self, topics: Iterable[str] = ()) -> None:
        """Refresh soon, and know these topics from then on."""
        self._topics.update(topics)
        self._wanted.set()
        if self._refresher is None and not self._closed:
            self._refresher = self._loop.create_task(self._keep_fresh(), name="kohort-metadata")

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterMetadata:
        """Metadata that was asked for after this call. Raises KafkaError where no broker can be asked."""
        if self._closed:
            raise self._closed_error()
        future: asyncio.Future[None] = self._loop.create_future()
        self._refreshed.append(future)
        self.want_metadata(topics)
        await future
        return self.metadata

    async def _keep_fresh(self) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self.options.metadata_max_age_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            waiting, self._refreshed = self._refreshed, []
            try:
                await self._refresh_now()
                failures = 0
            except asyncio.CancelledError:
                self._refreshed += waiting
                waiting = []
                raise
            except KafkaError as problem:
                failures += 1
                for future in waiting:
                    if not future.done():
                        future.set_exception(KafkaError(problem.code, str(problem).partition(": ")[2]))
                if self._watchers:
                    self._wanted.set()
            finally:
                for future in waiting:
                    if not future.done():
                        future.set_result(None)
            self._tell_watchers()
            await asyncio.sleep(self._back_off(failures) if failures else self.options.retry_backoff_ms / 2000)

    async def _refresh_now(self) -> None:
        # KIP-516: no topics at all is asked for by an empty list, all topics by null.
        topics = [MetadataRequestTopic(name=name) for name in sorted(self._topics)]
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=self.options.allow_auto_create_topics and bool(topics)
        )
        self.metadata = self.metadata.merged(await self.ask_any(request, MetadataResponse))
        await self._settle_bootstrap()

    async def _settle_bootstrap(self) -> None:
        """Keep a bootstrap connection as that of the broker which it turned out to reach, close the others."""
        by_peer = {(broker.host, broker.port): broker.node_id for broker in self.metadata.brokers.values()}
        for key, connection in list(self._connections.items()):
            if key[1] != _BOOTSTRAP or connection.in_flight:
                continue
            del self._connections[key]
            node_id = by_peer.get(connection.peer)
            if connection.open and node_id is not None and (node_id, "") not in self._connections:
                self._keep((node_id, ""), connection)
            elif by_peer:
                await connection.close()
            else:
                self._connections[key] = connection

    def _tell_watchers(self) -> None:
        unsettled = False
        for topics, watcher in list(self._watchers.values()):
            known = [self.metadata.topics.get(topic) for topic in topics]
            if any(topic is None for topic in known):
                self._wanted.set()
                continue
            unsettled |= any(topic is not None and topic.error.retriable for topic in known)
            watcher({topic.name: len(topic.leaders) for topic in known if topic is not None and topic.exists}, topics)
        if unsettled and self._look_again is None:
            # A topic that is being made, or has no leader, is looked at again before metadata.max.age.ms.
            self._look_again = self._loop.call_later(self.options.retry_backoff_max_ms / 1000, self._time_to_look)

    def _time_to_look(self) -> None:
        self._look_again = None
        self._wanted.set()

    # -- whom to ask

    async def ask_any(self, request: Question, answer: type[_M]) -> _M:
        """Ask some broker, one after the other until one answers. Raises the last KafkaError."""
        last: KafkaError | None = None
        for connect in self._places():
            try:
                connection = await connect()
                asked = request if isinstance(request, Message) else request(connection)
                return await connection.request(asked, answer)
            except KafkaError as problem:
                if not problem.retriable:
                    raise
                last = problem
        assert last is not None
        raise last

    async def any_connection(self) -> Connection:
        """A connection to some broker. Raises the last KafkaError where none can be reached."""
        last: KafkaError | None = None
        for connect in self._places():
            try:
                return await connect()
            except KafkaError as problem:
                if not problem.retriable:
                    raise
                last = problem
        assert last is not None
        raise last

    def _places(self) -> "list[Callable[[], Awaitable[Connection]]]":
        places: list[Callable[[], Awaitable[Connection]]] = [partial(self.connection, node) for node in self._nodes()]
        bootstrap = random.sample(self._bootstrap, len(self._bootstrap))
        return [*places, *(partial(self._bootstrap_connection, host, port) for host, port in bootstrap)]

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """An open connection to that broker; one for each purpose, since the broker answers each in order."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"no broker {node_id} is known")
        return await self._connection((node_id, purpose), broker.host, broker.port)

    async def connection_to(self, peer: tuple[str, int], purpose: str) -> Connection:
        """An open connection to that address."""
        return await self._connection((_NO_NODE, f"{purpose} {peer}"), *peer)

    async def leader(self, partition: TopicPartition) -> Connection:
        """A connection to the broker that leads the partition, as far as is known; raises a retriable KafkaError."""
        return await self.connection(self.leader_of(partition))

    def leader_of(self, partition: TopicPartition) -> int:
        """The broker that leads the partition, as far as is known; raises a retriable KafkaError, and looks again."""
        leader: Leader | None = self.metadata.leader(partition)
        if leader is None or leader.node_id is None:
            self.want_metadata((partition.topic,))
            topic = self.metadata.topics.get(partition.topic)
            if topic is not None and topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"{partition}: {topic.error.sentence}")
            missing = topic is not None and leader is None and topic.exists
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.LEADER_NOT_AVAILABLE
            raise KafkaError(code, f"{partition} has no known leader")
        return leader.node_id

    async def coordinator(self, group_id: str, purpose: str) -> Connection:
        """A connection to the group's coordinator, looked up afresh.

        Each member has one for itself: a parked JoinGroup would hold up whatever else is sent there.
        """

        def question(connection: Connection) -> Message:
            if connection.version_of(FindCoordinatorRequest) >= _MANY_KEYS:
                return FindCoordinatorRequest(coordinator_keys=[group_id])
            return FindCoordinatorRequest(key=group_id)

        response = await self.ask_any(question, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise KafkaError(error_code(found.error_code), found.error_message or None)
        return await self._connection((found.node_id, purpose), found.host, found.port)

    async def retrying(self, attempt: Callable[[], Awaitable[_T]], timeout_ms: Millis | None = None) -> _T:
        """Repeat `attempt` while it fails with a retriable KafkaError, up to default.api.timeout.ms."""
        timeout = (self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        deadline = self._loop.time() + timeout
        failures = 0
        while True:
            try:
                return await attempt()
            except KafkaError as problem:
                failures += 1
                delay = self._back_off(failures)
                if not problem.retriable or self._closed or self._loop.time() + delay > deadline:
                    raise
                _log.debug("again in %.3f s: %s", delay, problem)
            await asyncio.sleep(delay)

    # -- connections

    @property
    def connections(self) -> list[Connection]:
        """All that are open."""
        return list(self._connections.values())

    def _nodes(self) -> list[int]:
        """Brokers in the order to ask them: connected and idle ones first."""
        nodes = list(self.metadata.brokers)
        random.shuffle(nodes)

        def rank(node_id: int) -> tuple[bool, int]:
            connection = self._connections.get((node_id, ""))
            usable = connection is not None and connection.open
            return not usable, connection.in_flight if connection is not None and usable else 0

        return sorted(nodes, key=rank)

    async def _bootstrap_connection(self, host: str, port: int) -> Connection:
        return await self._connection((-1 - self._bootstrap.index((host, port)), _BOOTSTRAP), host, port)

    async def _connection(self, key: _Key, host: str, port: int) -> Connection:
        if self._closed:
            raise self._closed_error()
        connection = self._connections.get(key)
        if connection is not None and connection.open and connection.peer == (host, port):
            return connection
        task = self._connecting.get(key)
        if task is None:
            task = self._loop.create_task(self._connect(key, host, port), name=f"kohort-connect {host}:{port}")
            self._connecting[key] = task
            task.add_done_callback(lambda done: self._connected(key, done))
        return await asyncio.shield(task)

    async def _connect(self, key: _Key, host: str, port: int) -> Connection:
        count, failed_at = self._failures.get(key[0], (0, 0.0))
        if count:
            options = self.options
            delay = min(options.reconnect_backoff_ms * 2 ** min(count - 1, 16), options.reconnect_backoff_max_ms)
            await asyncio.sleep(max(0.0, failed_at + delay / 1000 - self._loop.time()))
        try:
            connection = await Connection.connect(
                host,
                port,
                client_id=self.options.client_id,
                request_timeout_ms=self.options.request_timeout_ms,
                setup_timeout_ms=self.options.socket_connection_setup_timeout_ms,
            )
        except KafkaError:
            self._failures[key[0]] = (count + 1, self._loop.time())
            raise
        self._failures.pop(key[0], None)
        return connection

    def _connected(self, key: _Key, task: "asyncio.Task[Connection]") -> None:
        self._connecting.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        connection = task.result()
        old = self._connections.pop(key, None)
        if old is not None:
            old.abort("the broker moved to another address")
        if self._closed:
            connection.abort("the client was closed")
        else:
            self._keep(key, connection)

    def _keep(self, key: _Key, connection: Connection) -> None:
        self._connections[key] = connection
        connection.closed.add_done_callback(lambda _: self._disconnected(key, connection))

    def _disconnected(self, key: _Key, connection: Connection) -> None:
        if self._connections.get(key) is connection:
            del self._connections[key]

    def _back_off(self, failures: int) -> float:
        options = self.options
        delay: float = min(options.retry_backoff_ms * 2 ** min(failures - 1, 16), options.retry_backoff_max_ms)
        return delay * random.uniform(0.8, 1.2) / 1000

    def _closed_error(self) -> KafkaError:
        return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the client is closed")
