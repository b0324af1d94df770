"""When a client refreshes its metadata, and what it asks for: in virtual time, with the answers of the test."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from kohort.client import ClusterMetadata, KafkaError
from kohort.client.net.metadata_refresh import Refresher
from kohort.client.options import ClientOptions
from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.client.virtual_time import in_virtual_time

ID, OTHER_ID = UUID(int=1), UUID(int=2)
DOWN = KafkaError(ErrorCode.NETWORK_EXCEPTION, "it is down")
PAUSE_S = 0.05
"""Time between two refreshes: half of retry_backoff_ms."""


class Answers:
    """The brokers: what there is, and what they were asked."""

    def __init__(self, **options: Any) -> None:
        self.topics: dict[str, int] = {"a": 1, "b": 2, "c": 3}
        self.errors: dict[str, ErrorCode] = {}
        self.ids: dict[UUID, str] = {}
        self.refused_ids: dict[UUID, ErrorCode] = {}
        self.next: list[KafkaError | ErrorCode] = []
        """What the next requests get instead of topics."""
        self.answering = asyncio.Event()
        self.answering.set()
        self.asked: list[tuple[float, tuple[str, ...] | None]] = []
        """Time and topics of each request by name; None for all topics."""
        self.asked_ids: list[set[UUID]] = []
        self.creating: list[bool] = []
        self.brokers_known: list[int] = []
        """How many brokers the client knew at each request."""
        self.fresh: list[ClusterMetadata] = []
        self._loop = asyncio.get_running_loop()
        given = {"bootstrap_servers": "b:9092", **options}
        self.refresher = Refresher(ClientOptions.read(given), self.answer, self.on_fresh)

    @property
    def times(self) -> list[float]:
        """Seconds between the first request and each."""
        return [round(at - self.asked[0][0], 6) for at, _ in self.asked]

    @property
    def names(self) -> list[tuple[str, ...] | None]:
        return [names for _, names in self.asked]

    async def on_fresh(self, metadata: ClusterMetadata) -> None:
        self.fresh.append(metadata)

    async def answer(self, request: MetadataRequest) -> MetadataResponse:
        self.creating.append(request.allow_auto_topic_creation)
        self.brokers_known.append(len(self.refresher.metadata.brokers))
        topics = request.topics
        if topics and topics[0].name is None:
            self.asked_ids.append({topic.topic_id for topic in topics})
            await self.answering.wait()
            return self._of(
                [self._by_id(topic.topic_id) for topic in topics if topic.topic_id in self.ids | self.refused_ids]
            )
        names = None if topics is None else tuple(topic.name or "" for topic in topics)
        self.asked.append((self._loop.time(), names))
        await self.answering.wait()
        match self.next.pop(0) if self.next else None:
            case KafkaError() as problem:
                raise problem
            case ErrorCode() as code:
                return MetadataResponse(error_code=code)
        return self._of([self._topic(name) for name in (sorted(self.topics) if names is None else names)])

    def _of(self, topics: Iterable[MetadataResponseTopic]) -> MetadataResponse:
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="b", port=9092)], topics=list(topics))

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics or name in self.errors:
            code = self.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return MetadataResponseTopic(name=name, error_code=code)
        partitions = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(self.topics[name])]
        topic_id = next((topic_id for topic_id, named in self.ids.items() if named == name), NO_TOPIC_ID)
        return MetadataResponseTopic(name=name, topic_id=topic_id, partitions=partitions)

    def _by_id(self, topic_id: UUID) -> MetadataResponseTopic:
        if topic_id in self.refused_ids:
            return MetadataResponseTopic(name=None, topic_id=topic_id, error_code=self.refused_ids[topic_id])
        return self._topic(self.ids[topic_id])


class Told:
    """A watcher: what it was told."""

    def __init__(self) -> None:
        self.counts: list[dict[str, int]] = []
        self.topics: list[frozenset[str]] = []

    def __call__(self, counts: Mapping[str, int], topics: frozenset[str]) -> None:
        self.counts.append(dict(counts))
        self.topics.append(topics)


def topics(*names: str) -> frozenset[str]:
    return frozenset(names)


def virtual(work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a coroutine a test that runs in virtual time."""
    return lambda: in_virtual_time(work)


# Requested topics


@virtual
async def test_a_watcher_receives_its_topics_soon_and_at_each_refresh() -> None:
    brokers, told = Answers(metadata_max_age_ms=10_000), Told()
    brokers.refresher.watch("me", topics("a", "missing"), told)
    await asyncio.sleep(1)
    assert told.counts == [{"a": 1}]
    assert told.topics == [topics("a", "missing")]
    brokers.topics["a"] = 4
    await asyncio.sleep(20)
    assert told.counts[-1] == {"a": 4}
    assert set(brokers.names) == {("a", "missing")}
    await brokers.refresher.close()


@virtual
async def test_metadata_is_asked_for_again_when_it_is_too_old() -> None:
    brokers = Answers(metadata_max_age_ms=10_000)
    brokers.refresher.watch("me", topics("a"), Told())
    await asyncio.sleep(25)
    assert brokers.times == [0, PAUSE_S + 10, 2 * (PAUSE_S + 10)]
    await brokers.refresher.close()


@virtual
async def test_two_refreshes_are_at_least_a_pause_apart() -> None:
    brokers = Answers()
    await brokers.refresher.refresh()
    await brokers.refresher.refresh()
    assert brokers.times == [0, PAUSE_S]
    await brokers.refresher.close()


@virtual
async def test_a_topic_that_is_wanted_is_asked_for_once_and_one_that_is_kept_each_time() -> None:
    # Brokers create the topics that a client asks for.
    brokers = Answers()
    brokers.refresher.keep("me", topics("a"))
    metadata = await brokers.refresher.refresh(["b"])
    assert (metadata.partitions("a"), metadata.partitions("b")) == (1, 2)
    await brokers.refresher.refresh()
    assert brokers.names == [("a", "b"), ("a",)]
    assert brokers.refresher.metadata.partitions("b") == 2, "what is known of other topics stays"
    await brokers.refresher.close()


@virtual
async def test_only_a_new_topic_that_is_kept_causes_a_refresh() -> None:
    brokers = Answers()
    for kept in (topics("a", "b"), topics("b"), topics("b", "a"), topics(), topics("c")):
        brokers.refresher.keep("me", kept)
        await asyncio.sleep(1)
    # `a` was no longer kept when the response arrived.
    assert brokers.names == [("a", "b"), ("a", "b"), ("c",)]
    await brokers.refresher.close()


@virtual
async def test_topics_that_another_keeps_already_cause_no_refresh() -> None:
    brokers = Answers()
    brokers.refresher.keep("one", topics("a"))
    await asyncio.sleep(1)
    brokers.refresher.keep("two", topics("a"))
    brokers.refresher.keep("one", topics())
    await asyncio.sleep(1)
    assert len(brokers.asked) == 1
    await brokers.refresher.refresh()
    brokers.refresher.keep("two", topics())
    await brokers.refresher.refresh()
    assert brokers.names == [("a",), ("a",), ()]
    await brokers.refresher.close()


@virtual
async def test_a_closed_watcher_receives_nothing_and_its_topics_are_not_requested() -> None:
    brokers, one, two, everything = Answers(), Told(), Told(), list[ClusterMetadata]()
    brokers.refresher.watch("one", topics("a"), one, frozenset({ID}))
    brokers.refresher.watch("two", topics("b"), two)
    brokers.refresher.watch_all("one", everything.append)
    await brokers.refresher.refresh()
    brokers.refresher.unwatch("one")
    before = len(one.counts), len(everything), len(brokers.asked_ids)
    assert before == (1, 1, 1)
    await brokers.refresher.refresh()
    assert (len(one.counts), len(everything), len(brokers.asked_ids)) == before
    assert two.counts == [{"b": 2}, {"b": 2}]
    assert brokers.names == [None, ("b",)]
    await brokers.refresher.close()


@virtual
async def test_a_watcher_of_all_topics_receives_existing_topics_only() -> None:
    brokers, seen, told = Answers(), list[ClusterMetadata](), Told()
    brokers.refresher.watch_all("me", seen.append)
    brokers.refresher.watch("me", topics("a", "b"), told)
    await brokers.refresher.refresh()
    del brokers.topics["b"]
    metadata = await brokers.refresher.refresh()
    assert seen[-1] is metadata
    assert {name for name, topic in metadata.topics.items() if topic.exists} == {"a", "c"}
    assert told.counts == [{"a": 1, "b": 2}, {"a": 1}]
    assert brokers.names == [None, None]
    await brokers.refresher.close()


@virtual
async def test_a_new_watcher_of_all_topics_is_notified_soon() -> None:
    brokers, seen = Answers(), list[ClusterMetadata]()
    brokers.refresher.watch_all("me", seen.append)
    await asyncio.sleep(1)
    assert [sorted(metadata.topics) for metadata in seen] == [["a", "b", "c"]]
    await brokers.refresher.close()


@pytest.mark.parametrize("allowed", [True, False])
def test_topics_are_created_only_where_they_are_named_and_the_options_allow_it(allowed: bool) -> None:
    async def work() -> None:
        brokers = Answers(allow_auto_create_topics=allowed)
        await brokers.refresher.refresh()
        await brokers.refresher.refresh(["a"])
        brokers.refresher.watch_all("me", lambda _: None)
        await brokers.refresher.refresh(["a"])
        assert brokers.names == [(), ("a",), None]
        assert brokers.creating == [False, allowed, False]
        await brokers.refresher.close()

    in_virtual_time(work)


@virtual
async def test_the_names_of_topics_are_found_by_their_ids() -> None:
    brokers = Answers(allow_auto_create_topics=True)
    brokers.ids[ID] = "a"
    brokers.refresher.watch("me", topics("b"), Told(), frozenset({ID}))
    metadata = await brokers.refresher.refresh()
    assert brokers.asked_ids == [{ID}]
    assert brokers.creating == [True, False]
    assert metadata.names == {ID: "a"}
    assert brokers.fresh == [metadata], "it has the names when the first may use it"
    await brokers.refresher.refresh()
    assert brokers.asked_ids == [{ID}], "what is known is not asked for again"
    await brokers.refresher.close()


# Failures


@virtual
async def test_a_refresh_that_fails_raises_and_is_tried_again_only_for_those_that_watch() -> None:
    for watch in ("topics", "all", "nothing"):
        brokers, told, seen = Answers(), Told(), list[ClusterMetadata]()
        if watch == "topics":
            brokers.refresher.watch("me", topics("a"), told)
        elif watch == "all":
            brokers.refresher.watch_all("me", seen.append)
        brokers.next = [DOWN]
        with pytest.raises(KafkaError, match="it is down"):
            await brokers.refresher.refresh()
        assert brokers.refresher.problem is not None
        assert not told.counts and not seen and not brokers.fresh
        await asyncio.sleep(10)
        assert len(brokers.asked) == (1 if watch == "nothing" else 2)
        assert (brokers.refresher.problem is None) is (watch != "nothing")
        assert (told.counts, len(seen)) == ([{"a": 1}] if watch == "topics" else [], int(watch == "all"))
        await brokers.refresher.close()


@virtual
async def test_the_pauses_between_failures_grow_and_a_success_ends_that() -> None:
    brokers = Answers(retry_backoff_ms=100, retry_backoff_max_ms=1_000, metadata_max_age_ms=100_000)
    brokers.refresher.watch("me", topics("a"), Told())
    brokers.next = [DOWN, DOWN, DOWN]
    await asyncio.sleep(20)
    brokers.next = [DOWN]
    brokers.refresher.want()
    await asyncio.sleep(20)
    pauses = [after - before for before, after in zip(brokers.times, brokers.times[1:], strict=False)]
    expected = [0.1, 0.2, 0.4, None, 0.1]
    assert len(pauses) == len(expected)
    assert all(
        middle is None or 0.8 * middle <= pause <= 1.2 * middle for middle, pause in zip(expected, pauses, strict=True)
    )
    await brokers.refresher.close()


@virtual
async def test_while_brokers_do_not_answer_watchers_receive_the_last_metadata() -> None:
    brokers, told, seen = Answers(), Told(), list[ClusterMetadata]()
    brokers.refresher.watch("me", topics("a"), told)
    brokers.refresher.watch_all("me", seen.append)
    await brokers.refresher.refresh()
    brokers.next = [DOWN]
    with pytest.raises(KafkaError):
        await brokers.refresher.refresh()
    assert told.counts == [{"a": 1}, {"a": 1}]
    assert len(seen) == 1
    await brokers.refresher.close()


@virtual
async def test_an_error_of_the_whole_answer_is_raised() -> None:
    brokers = Answers()
    brokers.next = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="metadata: ") as raised:
        await brokers.refresher.refresh()
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await brokers.refresher.close()


def test_a_client_that_must_rebootstrap_forgets_its_brokers_and_logs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # KIP-1102. Without brokers, the next request is sent to a bootstrap server.
    async def work() -> None:
        brokers = Answers()
        await brokers.refresher.refresh()
        again = ErrorCode.REBOOTSTRAP_REQUIRED
        brokers.next = [again]
        await brokers.refresher.refresh()
        assert brokers.brokers_known == [0, 1, 0]
        assert len(brokers.refresher.metadata.brokers) == 1
        brokers.next = [*[again] * 6, DOWN, again, again]
        for _ in range(5):
            with pytest.raises(KafkaError):
                await brokers.refresher.refresh()
        await brokers.refresher.close()

    in_virtual_time(work)
    said = [line for line in caplog.messages if line.startswith("a broker asks this client to connect")]
    assert len(said) == 3, "at the first answer, after the success, and after another error"


def test_failures_are_logged_when_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        brokers = Answers()
        brokers.ids = {ID: "b"}
        brokers.refused_ids = {ID: ErrorCode.UNKNOWN_TOPIC_ID}
        brokers.errors = {"a": ErrorCode.LEADER_NOT_AVAILABLE}
        brokers.refresher.watch("me", topics("a"), Told(), frozenset({ID, OTHER_ID}))
        brokers.next = [DOWN]
        await asyncio.sleep(10)
        brokers.errors.clear()
        brokers.refused_ids.clear()
        brokers.ids[OTHER_ID] = "c"
        await asyncio.sleep(10)
        await brokers.refresher.close()

    caplog.set_level(logging.WARNING)
    in_virtual_time(work)
    assert sum(line.startswith("no broker answers: ") for line in caplog.messages) == 1
    assert sum(line.startswith("a broker answers again ") for line in caplog.messages) == 1
    for topic in ("topic=a", f"topic id={ID}", f"topic id={OTHER_ID}"):
        about = [line for line in caplog.messages if topic in line]
        assert len(about) == 2, about
        assert about[0].startswith("no metadata: ") and about[1].startswith("metadata found after ")


# Topics that are on their way


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ErrorCode.LEADER_NOT_AVAILABLE, True),
        (ErrorCode.NONE, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_a_topic_that_is_being_created_is_looked_at_again_before_metadata_is_too_old(
    error: ErrorCode, again: bool
) -> None:
    async def work() -> None:
        brokers, told = Answers(retry_backoff_max_ms=1_000), Told()
        if error is not ErrorCode.NONE:
            brokers.errors["a"] = error
        brokers.refresher.watch("me", topics("a"), told)
        await asyncio.sleep(2.5)
        assert brokers.times == ([0, 1, 2] if again else [0])
        brokers.errors.clear()
        await asyncio.sleep(2.5)
        assert told.counts[-1] == ({} if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED else {"a": 1})
        assert len(brokers.asked) == (4 if again else 1)
        await brokers.refresher.close()

    in_virtual_time(work)


@virtual
async def test_a_topic_id_without_a_name_is_looked_up_again() -> None:
    brokers = Answers(retry_backoff_max_ms=1_000)
    brokers.refresher.watch("me", topics("a"), Told(), frozenset({ID}))
    await asyncio.sleep(1.5)
    brokers.ids[ID] = "b"
    await asyncio.sleep(5)
    assert brokers.asked_ids == [{ID}] * 3
    assert brokers.refresher.metadata.names == {ID: "b"}
    await brokers.refresher.close()


@virtual
async def test_a_refresh_on_request_does_not_add_a_second_look() -> None:
    brokers = Answers(retry_backoff_max_ms=1_000)
    brokers.errors["a"] = ErrorCode.LEADER_NOT_AVAILABLE
    brokers.refresher.watch("me", topics("a"), Told())
    await asyncio.sleep(0.5)
    await brokers.refresher.refresh()
    await asyncio.sleep(1)
    assert brokers.times == [0, 0.5, 1]
    await brokers.refresher.close()


@virtual
async def test_a_topic_added_during_a_request_is_part_of_the_next_one() -> None:
    brokers, one, two = Answers(), Told(), Told()
    brokers.refresher.watch("one", topics("a"), one)
    brokers.refresher.watch("two", topics("b"), two)
    brokers.answering.clear()
    await asyncio.sleep(1)
    brokers.refresher.watch("one", topics("c"), one)
    brokers.answering.set()
    await asyncio.sleep(0.01)
    assert (one.counts, two.counts) == ([], [{"b": 2}])
    await asyncio.sleep(1)
    assert (one.counts, two.counts) == ([{"c": 3}], [{"b": 2}, {"b": 2}])
    await brokers.refresher.close()


async def test_a_watcher_that_fails_does_not_end_the_refreshes() -> None:
    # In real time: a virtual loop ends at an error that no task awaits.
    def broken(counts: Mapping[str, int], asked: frozenset[str]) -> None:
        raise ZeroDivisionError

    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    brokers = Answers()
    brokers.refresher.watch("me", topics("a"), broken)
    await brokers.refresher.refresh()
    brokers.refresher.unwatch("me")
    assert (await brokers.refresher.refresh(["b"])).partitions("b") == 2
    await brokers.refresher.close()
    gc.collect()
    assert [type(error["exception"]) for error in errors] == [ZeroDivisionError], "it is reported"


# Callers that give up, and the end


@pytest.mark.parametrize("fails", [True, False])
def test_a_cancelled_caller_does_not_affect_others(fails: bool) -> None:
    async def work() -> None:
        brokers = Answers()
        brokers.answering.clear()
        refreshing = [asyncio.ensure_future(brokers.refresher.refresh()) for _ in range(2)]
        await asyncio.sleep(1)
        refreshing[0].cancel()
        await asyncio.sleep(0)
        if fails:
            brokers.next = [DOWN]
        brokers.answering.set()
        if fails:
            with pytest.raises(KafkaError):
                await refreshing[1]
        else:
            await refreshing[1]
        assert (await brokers.refresher.refresh()).brokers
        await brokers.refresher.close()

    in_virtual_time(work)


@virtual
async def test_a_client_that_closes_fails_what_is_under_way_and_what_follows() -> None:
    brokers = Answers(retry_backoff_max_ms=1_000)
    brokers.errors["a"] = ErrorCode.LEADER_NOT_AVAILABLE
    brokers.refresher.watch("me", topics("a"), Told())
    await brokers.refresher.refresh()
    brokers.answering.clear()
    under_way = asyncio.ensure_future(brokers.refresher.refresh())
    await asyncio.sleep(1)
    later, given_up = (asyncio.ensure_future(brokers.refresher.refresh()) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    await brokers.refresher.close()
    await brokers.refresher.close()
    for waiting in (under_way, later):
        with pytest.raises(KafkaError, match="the client is closed"):
            await waiting
    with pytest.raises(KafkaError, match="the client is closed"):
        await brokers.refresher.refresh()
    before = len(brokers.asked)
    brokers.answering.set()
    brokers.refresher.want()
    await asyncio.sleep(1_000)
    assert len(brokers.asked) == before


@virtual
async def test_a_client_that_asked_nothing_can_be_closed() -> None:
    brokers = Answers()
    await brokers.refresher.close()
    assert brokers.asked == []
