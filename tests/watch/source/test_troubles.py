"""Logs and clusters in trouble: the watcher says what it cannot know, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort import Admin, Consumer, ErrorCode, KafkaError, Producer, TopicPartition
from kohort.group_events import MemberFacts
from kohort.model import UUID
from kohort.recorder import JOURNAL_TOPIC
from kohort.testing import Broker, Invariant, Workspace
from kohort.watch import Live, LiveEvent, ProblemFound, ProblemSolved, SourceChanged, SourceKind, Watching
from kohort.watch.changes import AssignmentWritten, Change, Committed, EpochRaised, MemberWritten, TopicNamed
from kohort.watch.source import clock, kohort_topic, offsets
from kohort.watch.source.clients import cluster
from kohort.watch.source.following import _UNNAMED, NO_NAMES, LogFollower
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.interop.kohort import kohort as kohort_command
from tests.interop.process import ServerProcess
from tests.watch.source.test_watching import HOUR_MS, polling, told

Pair = tuple[bytes | None, bytes | None]


def commit(offset: int, partition: int = 0, group: str = "g") -> Pair:
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    return encode_key(key), encode_value(OffsetCommitValue(offset=offset, commit_timestamp=offset))


async def written(servers: str, topic: str, *pairs: Pair) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for key, value in pairs:
            await (await producer.send(topic, value, key=key))


async def until(live: Live, reached: Callable[[], bool]) -> None:
    """Wait for events until the state is as wanted."""
    news = asyncio.Event()
    stop = live.subscribe(lambda event, now: news.set())
    try:
        async with asyncio.timeout(60):
            while not reached():
                news.clear()
                await news.wait()
    finally:
        stop()


def committed(live: Live, group: str = "g", partition: int = 0) -> int | None:
    watched = live.groups.get(group)
    commit = None if watched is None else watched.commits.get(TopicPartition("orders", partition))
    return None if commit is None else commit.offset


async def test_foreign_and_broken_records_are_counted_and_the_others_are_read(kohort: Workspace) -> None:
    log, servers = kohort.topic("log"), kohort.bootstrap_servers
    foreign, broken = (b"\x00\x63from a newer broker", b"x"), (commit(1)[0], b"\x00\x63")
    await written(servers, log, commit(1), foreign, (None, b"no key"), (b"\x00", b"short"), broken, commit(2))
    async with Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS, log_topic=log) as watching:
        live = watching.live
        await watching.caught_up()
        assert committed(live) == 2
        assert (live.counts.records, live.counts.foreign, live.counts.unreadable) == (6, 1, 3)
        [problem] = live.problems
        assert "partition 0, offset 2 of __consumer_offsets cannot be read" in problem
        # So do those that arrive while it follows.
        await written(servers, log, foreign, broken, commit(3))
        await until(live, lambda: committed(live) == 3)
        assert (live.counts.foreign, live.counts.unreadable) == (2, 4)
        assert live.sources[SourceKind.LOG].state == "following"


async def test_the_stream_goes_on_where_the_log_begins_if_its_start_passed_the_position(kohort: Workspace) -> None:
    log, servers = kohort.topic("log"), kohort.bootstrap_servers
    await written(servers, log, commit(1))
    async with (
        Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS, log_topic=log) as watching,
        Admin(bootstrap_servers=servers) as admin,
    ):
        await watching.caught_up()
        live = watching.live
        assert committed(live) == 1
        # Nothing is fetched while the records come and go again.
        with kohort.fault(keys="Fetch", topic=log, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, count=-1) as fault:
            await fault.wait_async(hits=1)  # the fetch before it, which waits for records, is answered
            await written(servers, log, commit(2), commit(7, partition=1), commit(3))
            await admin.delete_records({TopicPartition(log, 0): 3})
        await until(live, lambda: committed(live) == 3)
        assert committed(live, partition=1) is None, "its record was deleted unread"
        await written(servers, log, commit(4))
        await until(live, lambda: committed(live) == 4)
        assert live.counts.unreadable == live.counts.foreign == 0


async def test_a_cluster_that_is_down_at_the_start_is_followed_when_it_is_up() -> None:
    down = ServerProcess(kohort_command("broker", "--listen", "127.0.0.1:0", "--memory"))
    servers = (await asyncio.to_thread(down.wait_for, r"^ready (\S+)$", 60.0))[1]
    await asyncio.to_thread(down.stop)
    options = {"bootstrap_servers": servers, "default_api_timeout_ms": 500}
    async with Watching(options, history_ms=HOUR_MS) as watching:
        live = watching.live
        with pytest.raises(KafkaError):
            await watching.caught_up()
        assert live.sources[SourceKind.LOG].state == "failed"
        assert servers in (live.sources[SourceKind.LOG].detail or "")
        up = ServerProcess(kohort_command("broker", "--listen", servers, "--memory"))
        try:
            await until(live, lambda: live.sources[SourceKind.LOG].state == "following")
            async with Consumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False) as consumer:
                async with Producer(bootstrap_servers=servers) as producer:
                    await (await producer.send("orders", b"x"))
                consumer.assign([TopicPartition("orders", 0)])
                await consumer.commit({TopicPartition("orders", 0): 1})
            await until(live, lambda: committed(live) == 1)
        finally:
            await asyncio.to_thread(up.kill)


async def test_a_topic_that_may_not_be_described_costs_no_other_its_name() -> None:
    topics = {"orders": 2, "secret": 1}
    with Broker(topics=topics) as broker:
        servers = broker.bootstrap_servers
        broker.fault(keys="Metadata", topic="secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, count=-1)
        async with (
            Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching,
            polling(servers, "orders", "g", "a", "consumer"),
        ):
            async with asyncio.timeout(60):
                await told(watching.live, "g", 1)
            live = watching.live
            await until(live, lambda: len(live.groups["g"].owners) == 2)
            assert not any("names of some topics" in problem for problem in live.problems)


COMPACTED_SOON = {
    "log.cleaner.backoff.ms": "20",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "2000",
}


async def test_commits_that_compaction_removed_before_they_were_read_are_not_missed() -> None:
    groups, times = [f"g{number}" for number in range(3)], 150
    with Broker(topics={"orders": 1}, settings=COMPACTED_SOON) as broker, contextlib.ExitStack() as held:
        servers, place = broker.bootstrap_servers, TopicPartition("orders", 0)
        async with contextlib.AsyncExitStack() as opened:
            admin = await opened.enter_async_context(Admin(bootstrap_servers=servers))
            consumers = []
            for group in groups:
                broker.allow(Invariant.FETCHED_COMMITS, group)
                consumer = Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False)
                consumers.append(await opened.enter_async_context(consumer))
                consumer.assign([place])
                await consumer.commit({place: 0})
            watching = Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS)
            live = (await opened.enter_async_context(watching)).live
            await watching.caught_up()
            refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
            held.enter_context(broker.fault(keys="Fetch", topic="__consumer_offsets", error=refused, count=-1))
            for offset in range(1, times + 1):
                await asyncio.gather(*(consumer.commit({place: offset}) for consumer in consumers))
            async with asyncio.timeout(60):
                while await size_of(admin, "__consumer_offsets") > 10_000:
                    pass
            held.close()
            await until(live, lambda: all(committed(live, group) == times for group in groups))
            assert live.counts.records < len(groups) * times // 2, "most were removed before they were read"
            assert live.counts.unreadable == live.counts.foreign == 0
            assert list(live.problems) == []


async def size_of(admin: Admin, topic: str) -> int:
    """Size of a topic's logs in bytes."""
    directories = await admin.describe_log_dirs([topic])
    return sum(size for directory in directories for size in directory.sizes.values())


async def test_a_journal_that_may_not_be_read_is_said_once(kohort: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kohort_topic, "_MOST_PAUSE_S", 0.1)
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    options: dict[str, Any] = {"bootstrap_servers": kohort.bootstrap_servers}
    async with Consumer(topic, group_id=group, **options):
        await group.wait_async(state="Stable")
    async with Admin(**options) as admin:
        while JOURNAL_TOPIC not in await admin.describe_topics():  # noqa: ASYNC110  a broker tells nobody
            await asyncio.sleep(0.05)
    live, states = Live(), list[str]()

    def sink(event: LiveEvent, _now: int) -> None:
        if isinstance(event, SourceChanged) and event.source.kind is SourceKind.JOURNAL:
            states.append(event.source.state)

    live.subscribe(sink)
    denied = kohort.fault(keys="Fetch", topic=JOURNAL_TOPIC, count=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with Watching(options, history_ms=HOUR_MS, live=live) as watching:
        await watching.caught_up()
        await until(live, lambda: "failed" in states)
        await denied.wait_async(denied.hits + 2)  # further attempts, none of which is a success
        assert states[-1] == "failed"
        assert states.count("failed") == 1
        denied.remove()
        await until(live, lambda: states[-1] == "following")


async def test_problems_are_withdrawn_when_the_permission_is_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "_REFUSED_MS", 200)
    place = TopicPartition("secret", 0)
    with Broker(topics={"secret": 1}) as broker:
        servers = broker.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([place])
            await consumer.commit({place: 0})
        denied = [
            broker.fault(keys="DescribeGroups", group="g", error=ErrorCode.GROUP_AUTHORIZATION_FAILED, count=-1),
            broker.fault(keys="ListOffsets", topic="secret", error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, count=-1),
        ]
        options = {"bootstrap_servers": servers}
        async with Watching(options, history_ms=HOUR_MS, sampling_ms=100, permission_ms=100) as watching:
            await watching.caught_up()
            live = watching.live
            solved: list[str] = []
            live.subscribe(lambda event, now: solved.append(event.text) if isinstance(event, ProblemSolved) else None)
            problems = list(live.problems)
            assert len(problems) == 2, problems
            for fault in denied:
                fault.remove()
            await until(live, lambda: not live.problems)
            assert sorted(solved) == sorted(problems)
            await until(live, lambda: place in live.ends)


async def test_partitions_get_their_owners_when_their_topic_may_be_described() -> None:
    with Broker(topics={"secret": 2}) as broker:
        servers = broker.bootstrap_servers
        async with (
            polling(servers, "secret", "g", "a", "consumer") as first,
            Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS, permission_ms=100) as watching,
        ):
            await watching.caught_up()
            live = watching.live
            group = live.groups["g"]
            names = dict(live.watcher.topic_names)
            (topic_id,) = (topic_id for topic_id, name in names.items() if name == "secret")
            # As if the topic had been hidden so far. A broker hides it from all users or from none in this test.
            live.watcher._names.clear()
            (member,) = group.members.values()
            member.owned = frozenset()
            follower = watching._follower
            follower._unknown[topic_id] = 0
            live.problem(NO_NAMES, 1, about=_UNNAMED)
            await until(live, lambda: not live.problems)
            assert member.owned == first.assignment


class LateCluster:
    """Cluster whose broker learns of a topic after the group that reads it."""

    def __init__(self, topic: str, topic_id: UUID, *, late: int) -> None:
        self.asked = 0
        self._late = late
        self._topics = {topic: SimpleNamespace(name=topic, topic_id=topic_id)}

    async def metadata_of(self, topics: None) -> SimpleNamespace:
        assert topics is None
        self.asked += 1
        return SimpleNamespace(topics=self._topics if self.asked > self._late else {})


async def test_the_name_of_a_new_topic_is_asked_for_until_the_broker_knows_it() -> None:
    live, topic_id = Live(), UUID(int=7)
    cluster = LateCluster("orders", topic_id, late=2)
    follower = LogFollower(cast("Any", None), live, cast("Any", cluster))
    await follower._name_new_topics({topic_id})
    assert live.watcher.topic_names == {topic_id: "orders"}
    assert cluster.asked == 3


async def test_a_topic_without_a_name_in_which_a_member_has_partitions_is_a_problem() -> None:
    live, topic_id = Live(), UUID(int=7)
    cluster = LateCluster("secret", topic_id, late=3)
    follower = LogFollower(cast("Any", None), live, cast("Any", cluster))
    await follower._name_topics({topic_id})
    await follower.name_again()
    assert not live.problems  # no member needs it
    live.apply([AssignmentWritten("g", 1, "a", 1, 0, True, frozenset({(topic_id, 0)}), frozenset())], 1)
    await follower.name_again()
    assert list(live.problems) == [NO_NAMES]
    await follower.name_again()
    await follower.name_again()
    assert not live.problems
    assert live.groups["g"].owners == {TopicPartition("secret", 0): "a"}


async def test_a_topic_that_may_not_be_described_is_named_by_the_first_commit() -> None:
    # Apache Kafka's commits have the ID of the topic beside its name.
    topic_id = UUID(int=7)
    assigned = AssignmentWritten("g", 1, "a", 1, 0, True, frozenset({(topic_id, 0)}), frozenset())
    batches: list[list[Change]] = [[assigned], [TopicNamed(topic_id, "secret")]]
    live, hidden = Live(), LateCluster("secret", topic_id, late=99)
    stream = SimpleNamespace(has_much=lambda: False, read=lambda most, timeout: asyncio.sleep(0, [object()]))
    follower = LogFollower(cast("Any", stream), live, cast("Any", hidden))
    follower._reader = cast(
        "Any", SimpleNamespace(read=lambda records: batches.pop(0), counts=live.counts, gaps=frozenset())
    )
    await follower.step()
    await follower.name_again()
    assert (live.groups["g"].owners, list(live.problems)) == ({}, [NO_NAMES])
    await follower.step()
    assert live.groups["g"].owners == {TopicPartition("secret", 0): "a"}
    await follower.name_again()
    assert not live.problems


async def test_a_commit_names_the_topic_of_an_assignment_that_is_read_together_with_it() -> None:
    topic_id, member = UUID(int=7), MemberFacts("a", "client", "/host")
    changes: list[Change] = [
        MemberWritten("g", 1, member, frozenset({"secret"})),
        EpochRaised("g", 1, 2),
        AssignmentWritten("g", 1, "a", 2, 0, True, frozenset({(topic_id, 0)}), frozenset()),
        TopicNamed(topic_id, "secret"),
        Committed("g", 2, TopicPartition("secret", 0), 5),
    ]
    live, hidden = Live(), LateCluster("secret", topic_id, late=99)
    stream = SimpleNamespace(has_much=lambda: False, read=lambda most, timeout: asyncio.sleep(0, [object()]))
    follower = LogFollower(cast("Any", stream), live, cast("Any", hidden))
    follower._reader = cast("Any", SimpleNamespace(read=lambda records: changes, counts=live.counts, gaps=frozenset()))
    await follower.step()
    [record] = live.groups["g"].rebalances
    assert [(change.partition, change.owner) for change in record.partitions] == [(0, "a")]
    # The name of a topic that is known is not asked for again.
    changes[:] = [AssignmentWritten("g", clock(), "a", 2, 0, True, frozenset({(topic_id, 0)}), frozenset())]
    await follower.step()
    assert hidden.asked == 0


@pytest.mark.parametrize("held_ms", [0, HOUR_MS])
async def test_an_open_transaction_that_holds_up_the_log_is_a_problem(kohort: Workspace, held_ms: int) -> None:
    topic, group = kohort.topic("orders"), kohort.group()
    servers, first = kohort.bootstrap_servers, TopicPartition(topic, 0)
    found: list[str] = []
    async with Producer(bootstrap_servers=servers, transactional_id=group) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({first: 0}, group)
        options = {"bootstrap_servers": servers}
        async with Watching(options, history_ms=HOUR_MS, held_ms=held_ms) as watching:
            live = watching.live
            live.subscribe(lambda event, at: found.append(event.text) if isinstance(event, ProblemFound) else None)
            await watching.caught_up()
            if held_ms == 0:
                await until(live, lambda: bool(found))
                assert "A transaction is open for long in these partitions of __consumer_offsets: " in found[0]
                assert first not in live.groups[group].commits
            await producer.commit_transaction()
            await until(
                live, lambda: group in live.groups and first in live.groups[group].commits and not live.problems
            )
    assert len(found) == (held_ms == 0)


async def test_a_topic_that_no_group_needs_any_more_is_no_problem(kohort: Workspace) -> None:
    topic, live = kohort.topic("secret", partitions=1), Live()
    client = cluster({"bootstrap_servers": kohort.bootstrap_servers})
    questions = offsets.OffsetQuestions(client, live)
    try:
        await client.refresh()
        questions.refuse({TopicPartition(topic, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED})
        assert questions.refused(clock()) == {topic}
        assert list(live.problems) == [
            f"The ends of topic {topic} cannot be read: they need the ACL Describe on the topic."
        ]
        questions.keep(set())
        assert (questions.refused(clock()), list(live.problems)) == (set(), [])
    finally:
        await client.close()
