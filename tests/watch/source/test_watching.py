"""The groups of a running broker, read from its log and compared with what the broker itself reports."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from kohort import Admin, Consumer, ErrorCode, KafkaError, Producer, TopicPartition
from kohort.recorder import JOURNAL_TOPIC, PartitionChange, RebalanceRecord
from kohort.testing import Broker, Invariant, Workspace
from kohort.watch import LagMethod, Live, LiveEvent, Snapshot, SourceChanged, SourceKind, Watching
from kohort.watch.source import clock
from tests.interop.kohort import kohort as kohort_command
from tests.interop.process import ServerProcess

HOUR_MS = 3_600_000
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


async def look(servers: str, history_ms: int = HOUR_MS) -> Snapshot:
    async with Watching({"bootstrap_servers": servers}, history_ms=history_ms) as watching:
        await watching.caught_up()
        return watching.live.snapshot(clock())


async def told(
    live: Live, group: str, rebalances: int, last: Callable[[RebalanceRecord], bool] = lambda record: True
) -> list[RebalanceRecord]:
    """The records of the group's rebalances, once there are so many and the last one is as wanted."""
    told = asyncio.Event()
    stop = live.subscribe(lambda event, now: told.set())
    try:
        while (
            group not in live.groups
            or len(live.groups[group].rebalances) < rebalances
            or not last(live.groups[group].rebalances[-1])
        ):
            told.clear()
            await told.wait()
        return list(live.groups[group].rebalances)
    finally:
        stop()


@contextlib.asynccontextmanager
async def polling(servers: str, topic: str, group: str, name: str, protocol: str) -> AsyncIterator[Consumer]:
    """A member that polls all the time, from its first assignment on."""
    assigned = asyncio.Event()
    async with Consumer(
        topic,
        on_assigned=lambda _: assigned.set(),
        bootstrap_servers=servers,
        group_id=group,
        client_id=name,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:

        async def poll() -> None:
            while True:
                await consumer.poll(timeout=0.1)

        task = asyncio.create_task(poll())
        try:
            await assigned.wait()
            yield consumer
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def story(record: RebalanceRecord) -> tuple[int, set[str], dict[str, str | None], set[str]]:
    """What the log and the broker's journal must agree on: generation, members, moves and new members."""
    names = {member.member_id: member.client_id for member in record.members()}
    return (
        record.generation,
        {member.client_id for member in record.came},
        {str(change): names.get(change.owner or "") for change in record.moved if not carried(record, change)},
        {member.client_id for member in record.went},
    )


def carried(record: RebalanceRecord, change: PartitionChange) -> bool:
    """Whether the journal reports a move of the rebalance before again, because its first read was still missing."""
    return record.started_at is not None and (change.assigned_at or record.ended_at) < record.started_at


@PROTOCOLS
async def test_each_rebalance_of_the_brokers_journal_is_found_in_its_log(kohort: Workspace, protocol: str) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", protocol):
        await group.wait_async(state="Stable", owns={"a": 2})
        async with polling(servers, topic, group, "b", protocol):
            await group.wait_async(state="Stable", owns={"a": 1, "b": 1})
            watched = (await look(servers)).watcher.groups[group]
            assert (watched.type, watched.state) == (protocol, "Stable")
            owned = {member.facts.client_id: len(member.owned) for member in watched.members.values()}
            assert owned == {"a": 1, "b": 1}
            assert all(member.facts.client_host for member in watched.members.values())
        await group.wait_async(state="Stable", owns={"a": 2})
    await group.wait_async(state="Empty")
    journal = [record for record in group.rebalances if record.is_rebalance]
    found: list[RebalanceRecord] = []
    with kohort.fault(keys="ListOffsets", topic=JOURNAL_TOPIC, count=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        while len(found) < len(journal):  # a reader sees a record only when it is durable
            snapshot = await look(servers)
            found = list(snapshot.watcher.groups[group].rebalances)
    assert [story(record) for record in found] == [story(record) for record in journal]
    assert found[0].cause == "first member"
    assert found[1].triggers[0].cause == "member joined"
    assert [trigger.cause for trigger in found[-1].gone] == ["member left or expired"]
    assert snapshot.counts.unreadable == snapshot.counts.foreign == 0


@PROTOCOLS
async def test_the_brokers_journal_tells_causes_and_dark_times(kohort: Workspace, protocol: str) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching:
        live = watching.live
        async with polling(servers, topic, group, "a", protocol):
            await group.wait_async(state="Stable", owns={"a": 2})
            async with polling(servers, topic, group, "b", protocol):
                await group.wait_async(state="Stable", owns={"a": 1, "b": 1})
            await group.wait_async(state="Stable", owns={"a": 2})
        await group.wait_async(state="Empty")
        await told(live, group, 4, lambda record: bool(record.gone) and record.cause == "member left")
    assert live.sources[SourceKind.JOURNAL].state == "following"
    by_generation = {record.generation: record for record in group.rebalances if record.is_rebalance}
    for record in live.groups[group].rebalances:
        known = by_generation[record.generation]
        assert (record.triggers, record.gone, record.started_at) == (known.triggers, known.gone, known.started_at)
        assert {str(change): change.dark_ms for change in record.partitions} == {
            str(change): change.dark_ms for change in known.partitions
        }


@PROTOCOLS
async def test_lag_is_counted_and_dated(kohort: Workspace, protocol: str) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    kohort.broker.allow(Invariant.FETCHED_COMMITS, group)  # it commits what it may not have read yet
    async with Producer(bootstrap_servers=kohort.bootstrap_servers) as producer:
        for number in range(10):
            at = 1_700_000_000_000 + number * 60_000
            await (await producer.send(topic, b"x", partition=0, timestamp=at))
        await (await producer.send(topic, b"x", partition=1))
    async with polling(kohort.bootstrap_servers, topic, group, "a", protocol) as consumer:
        await group.wait_async(state="Stable", owns={"a": 2})
        await consumer.commit({TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 1})
        snapshot = await look(kohort.bootstrap_servers)
    watched = snapshot.watcher.groups[group]
    behind, level = snapshot.progress(watched)
    assert (behind.committed, behind.end) == (4, 10)
    assert behind.lag is not None and level.lag is not None
    assert (behind.lag.records, behind.lag.method) == (6, LagMethod.TIMESTAMPS)
    truth = (snapshot.at - (1_700_000_000_000 + 4 * 60_000)) / 1000
    assert abs(behind.lag.seconds - truth) <= 0.5
    assert (level.lag.records, level.lag.seconds, level.lag.method) == (0, 0.0, LagMethod.CAUGHT_UP)
    assert behind.committed_at is not None and abs(snapshot.at - behind.committed_at) < 60_000
    assert behind.owner in watched.members


async def test_a_start_at_the_end_follows_what_happens_next(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", "classic"):
        await group.wait_async(state="Stable", owns={"a": 2})
        async with Watching({"bootstrap_servers": servers}, history_ms=0) as watching:
            await watching.caught_up()
            watched = watching.live.groups[group]
            assert (watched.state, len(watched.owners), list(watched.rebalances)) == ("Stable", 2, [])
            async with polling(servers, topic, group, "b", "classic"):
                await group.wait_async(state="Stable", owns={"a": 1, "b": 1})
                [record, *_] = await told(watching.live, group, 1)
                assert (record.cause, len(record.moved)) == ("member joined", 1)


async def test_the_log_is_followed_to_a_new_leader(kohort_cluster: Workspace) -> None:
    topic, group = kohort_cluster.topic("orders", partitions=2), kohort_cluster.group()
    servers = kohort_cluster.bootstrap_servers
    async with (
        Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching,
        polling(servers, topic, group, "a", "consumer"),
    ):
        await group.wait_async(state="Stable", owns={"a": 2})
        await told(watching.live, group, 1)
        await asyncio.to_thread(kohort_cluster.broker.move_coordinator, group)
        async with polling(servers, topic, group, "b", "consumer"):
            found = await told(watching.live, group, 2)
    assert [(record.cause, len(record.moved)) for record in found] == [("first member", 0), ("member joined", 1)]


async def test_a_cluster_without_groups_has_none() -> None:
    with Broker() as broker:
        snapshot = await look(broker.bootstrap_servers)
    assert (snapshot.groups, snapshot.problems) == ([], ())


async def test_what_may_not_be_described_is_reported_and_left_out(kohort: Workspace) -> None:
    open_topic, secret = kohort.topic("orders"), kohort.topic("secret")
    group = kohort.group()
    for topic in (open_topic, secret):
        topic.produce("a")
    async with Consumer(
        bootstrap_servers=kohort.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as consumer:
        at = {TopicPartition(topic, 0): 0 for topic in (open_topic, secret)}
        consumer.assign(list(at))
        await consumer.commit(at)
    with kohort.fault(keys="ListOffsets", topic=secret, count=-1, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
        snapshot = await look(kohort.bootstrap_servers)
    readable, forbidden = snapshot.progress(snapshot.watcher.groups[group])
    assert readable.lag is not None and readable.lag.records == 1
    assert (forbidden.committed, forbidden.end, forbidden.lag) == (0, None, None)
    [problem] = snapshot.problems
    assert problem == f"The ends of topic {secret} cannot be read: they need the ACL Describe on the topic."
    with kohort.fault(keys="DescribeGroups", group=group, count=-1, error=ErrorCode.GROUP_AUTHORIZATION_FAILED):
        snapshot = await look(kohort.bootstrap_servers)
    assert any(problem.startswith(f"Group {group} cannot be described: ") for problem in snapshot.problems)
    # The log tells its commits nevertheless.
    assert snapshot.watcher.groups[group].commits[TopicPartition(open_topic, 0)].offset == 0


async def test_earliest_offsets_are_sampled() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        orders = TopicPartition("orders", 0)
        async with asyncio.timeout(120), Producer(bootstrap_servers=servers) as producer:
            for _ in range(5):
                await (await producer.send("orders", b"value", partition=0))
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.alter_group_offsets("g", {orders: 4})
                await admin.delete_records({orders: 2})
            async with Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching:
                await watching.caught_up()
                assert watching.live.starts == {orders: 2}
                assert watching.live.poll_ms is not None


async def test_a_classic_group_is_seen_to_rebalance_before_its_log_tells_it() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        broker.create_topic("orders", partitions=2)
        async with (
            asyncio.timeout(120),
            Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching,
            polling(servers, "orders", "g", "a", "classic"),
        ):
            await told(watching.live, "g", 1)
            changed = asyncio.Event()
            watching.live.subscribe(lambda event, now: changed.set())

            async def seen(state: str) -> None:
                while watching.live.groups["g"].state != state:
                    changed.clear()
                    await changed.wait()

            await seen("Stable")
            async with contextlib.AsyncExitStack() as second:
                with broker.fault(keys="SyncGroup", group="g", hold=True, count=-1):
                    joining = asyncio.create_task(
                        second.enter_async_context(polling(servers, "orders", "g", "b", "classic"))
                    )
                    await seen("CompletingRebalance")
                    assert len(watching.live.groups["g"].rebalances) == 1
                await seen("Stable")
                await joining


async def test_a_cluster_that_cannot_list_groups_by_state_is_watched() -> None:
    # KIP-518 is in Apache Kafka 2.6.
    process = ServerProcess(kohort_command("fake", "--ports", "0", "--as-version", "2.5"))
    try:
        servers = (await asyncio.to_thread(process.wait_for, r"^(127.0.0.1:\d+)$", timeout=60.0))[1]
        async with asyncio.timeout(60):
            snapshot = await look(servers)
        assert not snapshot.problems
    finally:
        process.kill()


async def test_a_broker_that_does_not_list_groups_now_does_not_blind_the_watcher() -> None:
    # As a coordinator does that loads its groups.
    with Broker() as broker:
        servers = broker.bootstrap_servers
        async with asyncio.timeout(60), Producer(bootstrap_servers=servers) as producer:
            await (await producer.send("orders", b"value"))
            async with polling(servers, "orders", "g", "a", "classic") as member:
                await member.commit()
                async with Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching:
                    await watching.caught_up()
                    sampled = asyncio.Event()
                    watching.live.subscribe(lambda event, now: sampled.set())
                    with broker.fault(keys="ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS", count=-1) as fault:
                        while fault.hits < 2:  # the first one is taken by now
                            sampled.clear()
                            await sampled.wait()
                        assert watching.live.sources[SourceKind.LOG].state == "following"


async def test_a_cluster_that_fails_is_not_followed_because_of_an_earlier_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = asyncio.Queue[bool]()
    ask = Watching._asked

    async def counted(self: Watching) -> object:
        ends = await ask(self)
        asked.put_nowait(ends is not None)
        return ends

    monkeypatch.setattr(Watching, "_asked", counted)
    states: list[str] = []

    def see(event: LiveEvent, _now: int) -> None:
        if isinstance(event, SourceChanged) and event.source.kind is SourceKind.LOG:
            states.append(event.source.state)

    with Broker() as broker:
        servers = broker.bootstrap_servers
        async with asyncio.timeout(60), Producer(bootstrap_servers=servers) as producer:
            await (await producer.send("orders", b"value"))
            async with polling(servers, "orders", "g", "a", "classic") as member:
                await member.commit()
        async with asyncio.timeout(60), Watching({"bootstrap_servers": servers}, history_ms=HOUR_MS) as watching:
            await watching.caught_up()
            while not asked.empty():
                asked.get_nowait()
            while not await asked.get():
                pass
            watching.live.subscribe(see)
            # As a sample that finds no broker does, between the question and the look at its answer.
            watching._failed(KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker answers"))
            assert await asked.get()
            assert states == ["failed"]


async def test_a_description_from_before_a_rebalance_does_not_undo_it(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", "classic"):
        await group.wait_async(state="Stable", owns={"a": 2})
        late = kohort.fault(keys="DescribeGroups", group=group, client_id="watch", hold=True, when="after")
        async with Watching({"bootstrap_servers": servers, "client_id": "watch"}, history_ms=HOUR_MS) as watching:
            await late.wait_async()
            async with polling(servers, topic, group, "b", "classic"):
                await group.wait_async(state="Stable", owns={"a": 1, "b": 1})
                late.remove()
                await watching.caught_up()
                members = watching.live.groups[group].members.values()
                assert {member.facts.client_id for member in members} == {"a", "b"}


async def test_a_description_from_before_a_commit_does_not_undo_it(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=1), kohort.group()
    servers, first = kohort.bootstrap_servers, TopicPartition(topic, 0)
    kohort.broker.allow(Invariant.FETCHED_COMMITS, group)  # it commits what it has not read
    async with Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([first])
        await consumer.commit({first: 0})
        late = kohort.fault(keys="OffsetFetch", group=group, client_id="watch", hold=True, when="after")
        async with Watching({"bootstrap_servers": servers, "client_id": "watch"}, history_ms=HOUR_MS) as watching:
            await late.wait_async()
            async with Producer(bootstrap_servers=servers) as producer:
                await (await producer.send(topic, b"x", partition=0))
            await consumer.commit({first: 1})
            late.remove()
            await watching.caught_up()
            commit = watching.live.groups[group].commits[first]
            assert (commit.offset, commit.at is None) == (1, False)
