"""A client's view of one cluster: its brokers, partition leaders, and connections opened on demand."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from functools import partial
from importlib.metadata import version
from typing import Self, TypeVar, Unpack

from kohort.client.keywords import ClientKeywords
from kohort.client.metrics import NetworkMetrics, Report
from kohort.client.net.authentication import locks_accounts
from kohort.client.net.backoff import back_off
from kohort.client.net.closing import run_to_end
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.connections import NO_NODE, Connections, bootstrap_key
from kohort.client.net.metadata_refresh import Refresher, Watcher, WatcherOfAll
from kohort.client.options import ClientOptions
from kohort.errors import ErrorCode, KafkaError
from kohort.model import UUID, Millis, TopicPartition
from kohort.requests import ClusterMetadata, Leader, check, metadata_request
from kohort.wire.codec import Message
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse

_log = logging.getLogger(__name__)

_M = TypeVar("_M", bound=Message)
_T = TypeVar("_T")

Question = Message | Callable[[BrokerConnection], Message]
"""Request, or a function that builds it for a connection whose API versions are known."""

_MANY_KEYS = 4  # KIP-699: since this version FindCoordinator takes a list


class Cluster:
    """Client of one cluster, bound to the event loop in which it was created. It connects on first use."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self._loop = asyncio.get_running_loop()
        self.bootstrap = options.addresses()
        """Addresses of the bootstrap servers."""
        self._connections = Connections(options)
        self._refresher = Refresher(options, self._ask_for_metadata, self._learnt)
        self._closed = False
        self._made_at: Millis = time.time_ns() // 1_000_000

    @classmethod
    def of(cls, bootstrap_servers: str, **options: Unpack[ClientKeywords]) -> Self:
        """Create a cluster from keyword options."""
        return cls(ClientOptions.read({"bootstrap_servers": bootstrap_servers, **options}))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection. Closing twice is allowed."""
        self._closed = True
        await run_to_end(self._close())

    async def _close(self) -> None:
        await self._refresher.close()
        await self._connections.close()

    # -- metadata

    @property
    def metadata(self) -> ClusterMetadata:
        """Current metadata of the cluster."""
        return self._refresher.metadata

    @property
    def problem(self) -> KafkaError | None:
        """Error of the last metadata request; None if it succeeded."""
        return self._refresher.problem

    def watch(
        self, owner: object, topics: frozenset[str], watcher: Watcher, ids: frozenset[UUID] = frozenset()
    ) -> None:
        """Call `watcher` with the partition counts of `topics`, as soon as they are known and on changes.

        The names of the topics with these IDs are looked up, too (KIP-516).
        """
        self._refresher.watch(owner, topics, watcher, ids)

    def watch_all(self, owner: object, watcher: WatcherOfAll) -> None:
        """Call `watcher` with all existing topics, soon and after every refresh."""
        self._refresher.watch_all(owner, watcher)

    def unwatch(self, owner: object) -> None:
        """Stop calling the watchers registered under `owner`."""
        self._refresher.unwatch(owner)

    def want_metadata(self, topics: Iterable[str] = ()) -> None:
        """Refresh the metadata soon, and include these topics once."""
        self._refresher.want(topics)

    def keep_metadata(self, owner: object, topics: Set[str]) -> None:
        """Include these topics in every refresh, in place of the topics that `owner` kept before.

        New topics cause a refresh soon.
        """
        self._refresher.keep(owner, topics)

    async def refresh(self, topics: Iterable[str] = ()) -> ClusterMetadata:
        """Return metadata requested after this call, including `topics`.

        Raises KafkaError if no broker answers.
        """
        return await self._refresher.refresh(topics)

    async def metadata_of(self, topics: Iterable[str] | None) -> ClusterMetadata:
        """Return what a broker knows of these topics, or of all, without keeping it. Retries as `retrying` does."""
        request = metadata_request(topics)

        async def attempt() -> ClusterMetadata:
            return ClusterMetadata().merged(await self.ask_any(request, MetadataResponse))

        return await self.retrying(attempt)

    async def _ask_for_metadata(self, request: MetadataRequest) -> MetadataResponse:
        return await self.ask_any(request, MetadataResponse)

    async def _learnt(self, metadata: ClusterMetadata) -> None:
        await self._connections.settle_bootstrap(metadata.brokers.values())

    # -- choice of broker

    async def ask_any(self, request: Question, answer: type[_M]) -> _M:
        """Send the request to one broker after another until one answers. Raises the last KafkaError."""

        async def ask(connection: BrokerConnection) -> _M:
            asked = request if isinstance(request, Message) else request(connection)
            return await connection.request(asked, answer)

        return await self._anywhere(ask)

    async def any_connection(self) -> BrokerConnection:
        """Return a connection to any broker. Raises the last KafkaError if none can be reached."""

        async def take(connection: BrokerConnection) -> BrokerConnection:
            return connection

        return await self._anywhere(take)

    async def _anywhere(self, use: Callable[[BrokerConnection], Awaitable[_T]]) -> _T:
        last: KafkaError | None = None
        for connect in self._places():
            try:
                connection = await connect()
            except KafkaError as problem:
                if locks_accounts(problem):
                    raise  # the other brokers would count another failure of the same account
                # One that cannot be reached, or is not a broker, does not affect the others.
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

    def _places(self) -> "list[Callable[[], Awaitable[BrokerConnection]]]":
        """Return functions that connect to a broker, in the order in which to try them.

        Connected and idle brokers are first, bootstrap addresses last.
        """
        nodes = list(self.metadata.brokers)
        random.shuffle(nodes)

        def rank(node_id: int) -> tuple[bool, int]:
            connection = self._connections.usable((node_id, ""))
            return connection is None, connection.in_flight if connection else 0

        places: list[Callable[[], Awaitable[BrokerConnection]]] = [
            partial(self.connection, node) for node in sorted(nodes, key=rank)
        ]
        numbered = list(enumerate(self.bootstrap))
        for number, (host, port) in random.sample(numbered, len(numbered)):
            places.append(partial(self._connections.get, bootstrap_key(number), host, port))
        return places

    async def connection(self, node_id: int, purpose: str = "") -> BrokerConnection:
        """Return an open connection to this broker.

        Each purpose has its own connection, because a broker answers a connection's requests in
        order.
        """
        broker = self.metadata.brokers.get(node_id)
        # The broker went away between two responses; the one that returned its ID knows a successor by now.
        if broker is None:
            self.want_metadata()
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"no broker {node_id} is known")
        return await self._connections.get((node_id, purpose), broker.host, broker.port)

    async def connection_to(self, peer: tuple[str, int], purpose: str) -> BrokerConnection:
        """Return an open connection to this address."""
        return await self._connections.get((NO_NODE, f"{purpose} {peer}"), *peer)

    async def leader(self, partition: TopicPartition) -> BrokerConnection:
        """Return a connection to the known leader of the partition.

        Raises a retriable KafkaError if there is none.
        """
        return await self.connection(self.leader_of(partition))

    def leader_of(self, partition: TopicPartition) -> int:
        """Return the known leader of the partition.

        If there is none, request new metadata and raise a retriable KafkaError.
        """
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

    async def coordinator(self, key: str, purpose: str, key_type: int = 0) -> BrokerConnection:
        """Look up the coordinator of a group (`key_type` 0) or transactional ID (1), and return a connection to it.

        Each member uses a separate connection, because a parked JoinGroup would delay its other
        requests.
        """

        def question(connection: BrokerConnection) -> Message:
            if connection.version_of(FindCoordinatorRequest) >= _MANY_KEYS:
                return FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            return FindCoordinatorRequest(key=key, key_type=key_type)

        response = await self.ask_any(question, FindCoordinatorResponse)
        found = response.coordinators[0] if response.coordinators else response
        check(found.error_code, key, found.error_message)
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
    def features(self) -> Mapping[str, int]:
        """Level of each finalized feature of the cluster; empty before the first connection."""
        return self._connections.features.levels

    @property
    def metrics(self) -> NetworkMetrics:
        """Metrics of the connections."""
        return self._connections.metrics

    @property
    def metadata_age(self) -> float:
        """Age of the metadata in seconds; NaN before the first."""
        return self._loop.time() - self._refresher.refreshed_at

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for a response."""
        return sum(connection.in_flight for connection in self.connections)

    def report(self, report: Report, kind: str) -> None:
        """Add the metrics of the connections of a client of this kind, such as `consumer`, and of the program."""
        self.metrics.report(report, kind)
        report.add("app-info", "version", "Version of Kohort.", version("kohort"))
        report.add("app-info", "start-time-ms", "Time at which the client was made, in milliseconds.", self._made_at)

    @property
    def connections(self) -> list[BrokerConnection]:
        """All open connections."""
        return self._connections.all
