"""A client's view of one cluster: its brokers, who leads what, and a connection to each when it is needed."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Set
from functools import partial
from typing import Any, Self, TypeVar

from kohort.client.backoff import back_off
from kohort.client.closing import undisturbed
from kohort.client.connection import Connection
from kohort.client.connections import NO_NODE, Connections, bootstrap_key
from kohort.client.metadata import ClusterMetadata, Leader
from kohort.client.options import ClientOptions, read_options
from kohort.client.refresher import Refresher, Watcher, WatcherOfAll
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import UUID, Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.metadata import MetadataRequest, MetadataResponse

_log = logging.getLogger(__name__)

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")

Question = Message | Callable[[Connection], Message]
"""A request, or how to make it for a connection whose versions are known."""

_MANY_KEYS = 4  # KIP-699: from this version on FindCoordinator takes a list


class Cluster:
    """Connects when first used. Belongs to the event loop in which it was made."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self._loop = asyncio.get_running_loop()
        self._bootstrap = options.addresses()
        self._connections = Connections(options)
        self._refresher = Refresher(options, self._ask_for_metadata, self._learnt)
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
        await self._refresher.close()
        await self._connections.close()

    # -- metadata

    @property
    def metadata(self) -> ClusterMetadata:
        """What is known of the cluster now."""
        return self._refresher.metadata

    @property
    def problem(self) -> KafkaError | None:
        """Why the cluster could not be asked the last time; None where it could."""
        return self._refresher.problem

    def watch(self, who: object, topics: frozenset[str], watcher: Watcher, ids: frozenset[UUID] = frozenset()) -> None:
        """Tell `watcher` now (as soon as it is known) and whenever the partition counts of `topics` change.

        The topics of these ids become known, too (KIP-516).
        """
        self._refresher.watch(who, topics, watcher, ids)

    def watch_all(self, who: object, watcher: WatcherOfAll) -> None:
        """Tell `watcher` of all topics that there are, soon and after every refresh."""
        self._refresher.watch_all(who, watcher)

    def unwatch(self, who: object) -> None:
        """Stop telling."""
        self._refresher.unwatch(who)

    def want_metadata(self, topics: Iterable[str] = ()) -> None:
        """Refresh soon, and ask for these topics, too, this once."""
        self._refresher.want(topics)

    def keep_metadata(self, who: object, topics: Set[str]) -> None:
        """Have these topics in every refresh, instead of those that `who` kept before; refresh soon for new ones."""
        self._refresher.keep(who, topics)

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterMetadata:
        """Metadata asked for after this call, of `topics`, too. Raises KafkaError if no broker can be asked."""
        return await self._refresher.refresh(topics)

    async def _ask_for_metadata(self, request: MetadataRequest) -> MetadataResponse:
        return await self.ask_any(request, MetadataResponse)

    async def _learnt(self, metadata: ClusterMetadata) -> None:
        await self._connections.settle_bootstrap(metadata.brokers.values())

    # -- whom to ask

    async def ask_any(self, request: Question, answer: type[_M]) -> _M:
        """Ask some broker, one after the other until one answers. Raises the last KafkaError."""

        async def ask(connection: Connection) -> _M:
            asked = request if isinstance(request, Message) else request(connection)
            return await connection.request(asked, answer)

        return await self._anywhere(ask)

    async def any_connection(self) -> Connection:
        """A connection to some broker. Raises the last KafkaError where none can be reached."""

        async def take(connection: Connection) -> Connection:
            return connection

        return await self._anywhere(take)

    async def _anywhere(self, use: Callable[[Connection], Awaitable[_T]]) -> _T:
        last: KafkaError | None = None
        for connect in self._places():
            try:
                connection = await connect()
            except KafkaError as problem:
                # One that cannot be reached, or is no broker, says nothing of the others.
                last = problem if last is None or problem.retriable else last
                continue
            try:
                return await use(connection)
            except KafkaError as problem:
                if not problem.retriable:
                    raise
                last = problem
        assert last is not None
        raise last

    def _places(self) -> "list[Callable[[], Awaitable[Connection]]]":
        """Brokers in the order to ask them, connected and idle ones first; then the bootstrap addresses."""
        nodes = list(self.metadata.brokers)
        random.shuffle(nodes)

        def rank(node_id: int) -> tuple[bool, int]:
            connection = self._connections.usable((node_id, ""))
            return connection is None, connection.in_flight if connection else 0

        places: list[Callable[[], Awaitable[Connection]]] = [
            partial(self.connection, node) for node in sorted(nodes, key=rank)
        ]
        numbered = list(enumerate(self._bootstrap))
        for number, (host, port) in random.sample(numbered, len(numbered)):
            places.append(partial(self._connections.get, bootstrap_key(number), host, port))
        return places

    async def connection(self, node_id: int, purpose: str = "") -> Connection:
        """An open connection to that broker; one for each purpose, since the broker answers each in order."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:  # it ended between two answers: who named it knows a successor by now
            self.want_metadata()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no broker {node_id} is known")
        return await self._connections.get((node_id, purpose), broker.host, broker.port)

    async def connection_to(self, peer: tuple[str, int], purpose: str) -> Connection:
        """An open connection to that address."""
        return await self._connections.get((NO_NODE, f"{purpose} {peer}"), *peer)

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
            if leader is not None and leader.error is not ErrorCode.NONE:
                raise KafkaError(leader.error, f"{partition}: {leader.error.sentence}")
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
        return await self._connections.get((found.node_id, purpose), found.host, found.port)

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
                delay = back_off(self.options, failures)
                if not problem.retriable or self._closed or self._loop.time() + delay > deadline:
                    raise
                _log.debug("again in %.3f s: %s", delay, problem)
            await asyncio.sleep(delay)

    @property
    def connections(self) -> list[Connection]:
        """All that are open."""
        return self._connections.all
