"""A client's view of one cluster: which broker it asks, what it knows of leaders, and how long it tries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kohort import Cluster, ErrorCode, KafkaError, TopicPartition
from kohort.client.options import ClientOptions
from kohort.wire.codec import Message
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.conftest import eventually
from tests.client.link import linked_broker
from tests.client.peer import API_VERSIONS, METADATA, Peer, peer, supports
from tests.client.virtual_time import in_virtual_time

FIND_COORDINATOR = 10
HOST, NOWHERE = "127.0.0.1", "127.0.0.1:1"


@asynccontextmanager
async def peers(*answers: Mapping[int, Message | None], newest: int = 99) -> AsyncIterator[list[Peer]]:
    async with AsyncExitStack() as stack:
        started = []
        for some in answers:
            versions = supports(API_VERSIONS, *some, newest=newest), None
            started_peer = await stack.enter_async_context(peer(versions))
            started_peer.answers.update(some)
            started.append(started_peer)
        yield started


def addresses(*some: Peer) -> str:
    return ",".join(f"{HOST}:{broker.port}" for broker in some)


def cluster_of(*some: Peer, **options: Any) -> Cluster:
    return Cluster(ClientOptions.read({"bootstrap_servers": addresses(*some), "reconnect_backoff_ms": 1, **options}))


def learn(cluster: Cluster, *topics: MetadataResponseTopic, brokers: Mapping[int, Peer] | None = None) -> None:
    known = [MetadataResponseBroker(node_id=n, host=HOST, port=broker.port) for n, broker in (brokers or {}).items()]
    answer = MetadataResponse(brokers=known, topics=list(topics))
    cluster._refresher.metadata = cluster.metadata.merged(answer)


# Which broker is asked

ANSWER: dict[int, Message | None] = {METADATA: MetadataResponse(cluster_id="c")}
NO_ANSWER: dict[int, Message | None] = {METADATA: None}


async def asked(cluster: Cluster) -> str | None:
    return (await cluster.ask_any(MetadataRequest(topics=[]), MetadataResponse)).cluster_id


async def web_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def test_a_broker_that_cannot_answer_does_not_keep_others_from_being_asked() -> None:
    async with await asyncio.start_server(web_server, HOST, 0) as server, peers(NO_ANSWER, ANSWER) as some:
        web = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        for _ in range(8):  # addresses are tried in any order
            async with Cluster.of(f"{NOWHERE},{web},{addresses(*some)}") as cluster:
                assert await asked(cluster) == "c"


async def test_if_no_broker_answers_an_error_that_a_retry_may_fix_is_raised_before_others() -> None:
    async with await asyncio.start_server(web_server, HOST, 0) as server:
        web = f"{HOST}:{server.sockets[0].getsockname()[1]}"
        for _ in range(8):
            async with Cluster.of(f"{NOWHERE},{web}") as cluster:
                with pytest.raises(KafkaError, match="cannot connect"):
                    await asked(cluster)
        async with Cluster.of(web) as cluster:
            with pytest.raises(KafkaError, match="is a web server"):
                await asked(cluster)


async def test_a_request_that_a_broker_refuses_for_good_is_not_sent_to_the_others() -> None:
    async with peers({}, {}) as some, cluster_of(*some) as cluster:
        with pytest.raises(KafkaError, match="no version of Metadata"):
            await asked(cluster)
        assert sum(bool(broker.writers) for broker in some) == 1


async def test_a_broker_that_is_connected_and_has_less_to_do_is_asked_first() -> None:
    async with peers(ANSWER, ANSWER, ANSWER) as [boot, one, other], cluster_of(boot) as cluster:
        learn(cluster, brokers={1: one, 2: other})
        connected = await cluster.connection(2)
        for _ in range(8):
            assert await cluster.any_connection() is connected
        idle = await cluster.connection(1)
        connected.post(MetadataRequest(topics=[]))
        other.answers.clear()
        waiting = connected.send(MetadataRequest(topics=[]))
        for _ in range(8):
            assert await cluster.any_connection() is idle
        waiting.cancel()
        assert not boot.writers


async def test_brokers_without_a_difference_are_asked_in_any_order() -> None:
    async with peers(ANSWER, ANSWER) as [one, other]:
        for _ in range(30):
            async with cluster_of(one) as cluster:
                learn(cluster, brokers={1: one, 2: other})
                assert await asked(cluster) == "c"
        assert one.asked and other.asked


async def test_a_broker_that_is_not_known_is_an_error_that_a_retry_may_fix() -> None:
    async with linked_broker() as (_, link), Cluster.of(f"{HOST}:{link.port}") as cluster:
        with pytest.raises(KafkaError, match="no broker 9 is known") as raised:
            await cluster.connection(9)
        assert raised.value.retriable
        await eventually(lambda: link.asked[METADATA] > 0)


async def test_the_address_that_was_asked_first_is_not_connected_to_again_as_a_broker() -> None:
    async with linked_broker() as (_, link), Cluster.of(f"{HOST}:{link.port}") as cluster:
        found = await cluster.refresh()
        (node_id,) = found.brokers
        connection = await cluster.connection(node_id)
        assert cluster.connections == [connection]
        assert await cluster.connection_to((HOST, link.port), "other") is not connection


# Coordinators


@pytest.mark.parametrize(("newest", "many"), [(3, False), (4, True), (5, True)])
async def test_a_coordinator_is_looked_up_as_the_broker_understands(newest: int, many: bool) -> None:
    async with peers(ANSWER, ANSWER) as [coordinator, _]:
        found: dict[str, Any] = {"node_id": 7, "host": HOST, "port": coordinator.port}
        answer = FindCoordinatorResponse(**({"coordinators": [Coordinator(key="g", **found)]} if many else found))
        async with peers({FIND_COORDINATOR: answer}, newest=newest) as [boot], cluster_of(boot) as cluster:
            connection = await cluster.coordinator("g", "member")
            assert connection.peer == (HOST, coordinator.port)
            assert boot.read(FindCoordinatorRequest) == [
                FindCoordinatorRequest(coordinator_keys=["g"]) if many else FindCoordinatorRequest(key="g")
            ]


@pytest.mark.parametrize("message", ["not you", "", None])
async def test_a_coordinator_that_is_refused_is_an_error_in_the_brokers_words(message: str | None) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    answer = FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=code, error_message=message)])
    async with peers({FIND_COORDINATOR: answer}, newest=4) as [boot], cluster_of(boot) as cluster:
        with pytest.raises(KafkaError) as raised:
            await cluster.coordinator("g", "member")
        assert (raised.value.code, raised.value.sentence) == (code, f"g: {message or code.sentence}")


# Leaders

T = TopicPartition("t", 0)


def led(leader_id: int, error: ErrorCode = ErrorCode.NONE) -> MetadataResponseTopic:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader_id, error_code=error)
    return MetadataResponseTopic(name="t", partitions=[partition])


@pytest.mark.parametrize(
    ("topic", "partition", "code", "detail"),
    [
        (led(-1), T, ErrorCode.LEADER_NOT_AVAILABLE, "t-0 has no known leader"),
        (led(-1, ErrorCode.REPLICA_NOT_AVAILABLE), T, ErrorCode.REPLICA_NOT_AVAILABLE, "t-0: "),
        (led(1), TopicPartition("t", 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-9 has no known leader"),
        (led(1), TopicPartition("u", 0), ErrorCode.LEADER_NOT_AVAILABLE, "u-0 has no known leader"),
        (
            MetadataResponseTopic(name="t", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            T,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "t-0: ",
        ),
    ],
)
async def test_a_partition_without_a_leader_is_an_error_with_its_reason(
    topic: MetadataResponseTopic, partition: TopicPartition, code: ErrorCode, detail: str
) -> None:
    async with Cluster.of(NOWHERE) as cluster:
        learn(cluster, topic)
        with pytest.raises(KafkaError) as raised:
            cluster.leader_of(partition)
        assert raised.value.code is code and raised.value.sentence.startswith(detail)


async def test_a_leader_that_is_known_is_returned_and_one_that_is_not_is_looked_up() -> None:
    names: list[set[str | None]] = []

    def look(request: MetadataRequest) -> None:
        names.append({topic.name for topic in request.topics or ()})

    async with linked_broker() as (broker, link), Cluster.of(f"{HOST}:{link.port}") as cluster:
        broker.topics.create("t", 1)
        link.watch[METADATA] = look
        with pytest.raises(KafkaError):
            await cluster.leader(T)
        await eventually(lambda: cluster.metadata.leader(T) is not None)
        assert names == [{"t"}]
        assert cluster.leader_of(T) in cluster.metadata.brokers
        assert (await cluster.leader(T)).open


# Metadata


async def test_watchers_are_told_until_they_are_taken_away_and_kept_topics_are_asked_for() -> None:
    names: list[set[str | None]] = []

    def look(request: MetadataRequest) -> None:
        names.append({topic.name for topic in request.topics or ()})

    async with linked_broker() as (broker, link), Cluster.of(f"{HOST}:{link.port}") as cluster:
        broker.topics.create("t", 2)
        link.watch[METADATA] = look
        counts: list[dict[str, int]] = []
        everything: list[set[str]] = []
        cluster.keep_metadata("keeper", {"kept"})
        await eventually(lambda: {"kept"} in names)
        cluster.watch("one", frozenset({"t"}), lambda some, asked: counts.append(dict(some)))
        await eventually(lambda: counts == [{"t": 2}])
        assert names[-1] == {"kept", "t"}
        cluster.watch_all("all", lambda known: everything.append(set(known.topics)))
        await eventually(lambda: everything != [] and "t" in everything[-1])
        for owner in ("one", "all"):
            cluster.unwatch(owner)
        before = len(counts), len(everything)
        await cluster.refresh()
        await cluster.refresh()
        assert (len(counts), len(everything)) == before


# Attempts


class Attempts:
    """Attempts that fail, each with its time in seconds since the first."""

    def __init__(self, code: ErrorCode = ErrorCode.NETWORK_EXCEPTION, **options: Any) -> None:
        given = {"bootstrap_servers": NOWHERE, "retry_backoff_ms": 100, "retry_backoff_max_ms": 100_000}
        self.cluster = Cluster(ClientOptions.read({**given, **options}))
        self.code = code
        self.times: list[float] = []
        self.enough = 1_000
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()

    async def attempt(self) -> str:
        self.times.append(self._loop.time() - self._began)
        if len(self.times) == self.enough:
            return "done"
        raise KafkaError(self.code)

    async def fail(self, timeout_ms: int | None) -> list[float]:
        with pytest.raises(KafkaError) as raised:
            await self.cluster.retrying(self.attempt, timeout_ms)
        assert raised.value.code is self.code
        return self.times


def virtual(work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a coroutine a test that runs in virtual time."""
    return lambda: in_virtual_time(work)


@virtual
async def test_an_attempt_is_repeated_after_delays_that_double_until_it_succeeds() -> None:
    here = Attempts()
    here.enough = 5
    assert await here.cluster.retrying(here.attempt) == "done"
    delays = [after - before for before, after in zip(here.times, here.times[1:], strict=False)]
    for delay, expected in zip(delays, (0.1, 0.2, 0.4, 0.8), strict=True):
        assert expected * 0.8 <= delay <= expected * 1.2


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(2_000, 2.0), (None, 5.0)])
def test_attempts_end_in_time(timeout_ms: int | None, seconds: float) -> None:
    async def run() -> None:
        here = Attempts(default_api_timeout_ms=5_000, retry_backoff_max_ms=100)
        times = await here.fail(timeout_ms)
        assert seconds - 0.13 < times[-1] <= seconds

    in_virtual_time(run)


@virtual
async def test_an_error_that_no_retry_fixes_is_raised_at_once() -> None:
    assert await Attempts(ErrorCode.TOPIC_AUTHORIZATION_FAILED).fail(None) == [0.0]


@virtual
async def test_a_closed_client_tries_no_more() -> None:
    here = Attempts(retry_backoff_max_ms=100)
    closing = asyncio.get_running_loop().call_later(1.0, lambda: asyncio.ensure_future(here.cluster.close()))
    times = await here.fail(60_000)
    assert 1.0 <= times[-1] < 1.2
    closing.cancel()
    await here.cluster.close()
