"""Groups of a cluster that does not let its log be read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from kohort import Admin, Consumer, ErrorCode, TopicPartition
from kohort.model import Millis
from kohort.recorder import JOURNAL_TOPIC
from kohort.testing import Broker, Cluster, Workspace
from kohort.watch import Live, LiveEvent, SourceKind, Watching
from kohort.watch.source.clients import cluster
from kohort.watch.source.states import RebalancingStates
from kohort.watch.source.watching import NO_GROUPS
from tests.watch.source.test_watching import PROTOCOLS, polling, told

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
LOG = "__consumer_offsets"


@contextlib.asynccontextmanager
async def watched(servers: str) -> AsyncIterator[Watching]:
    options = {"bootstrap_servers": servers}
    async with Watching(options, history_ms=3_600_000, polling_ms=100, permission_ms=100, sampling_ms=100) as watching:
        await watching.caught_up()
        yield watching


async def until(live: Live, wanted: Callable[[], bool]) -> None:
    told = asyncio.Event()
    stop = live.subscribe(lambda event, now: told.set())
    try:
        while not wanted():
            told.clear()
            await told.wait()
    finally:
        stop()


@PROTOCOLS
@pytest.mark.parametrize("hidden", ["Metadata", "Fetch"])
async def test_differences_between_descriptions_are_rebalances(kohort: Workspace, protocol: str, hidden: str) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", protocol) as consumer:
        await group.wait_async(state="Stable", owns={"a": 2})
        with (
            kohort.fault(keys=hidden, topic=LOG, count=-1, error=DENIED),
            kohort.fault(keys="ListOffsets", topic=JOURNAL_TOPIC, count=-1, error=DENIED),
        ):
            async with watched(servers) as watching:
                live = watching.live
                await until(live, lambda: SourceKind.ADMIN in live.sources)
                assert live.sources[SourceKind.LOG].state == "forbidden"
                assert live.sources[SourceKind.ADMIN].state == "following"
                assert "need the ACLs Read and Describe" in (live.sources[SourceKind.LOG].detail or "")
                known = live.groups[group]
                assert (known.type, known.state, len(known.owners), list(known.rebalances)) == (
                    protocol,
                    "Stable",
                    2,
                    [],
                )
                await consumer.commit({TopicPartition(topic, 0): 0})
                await until(live, lambda: TopicPartition(topic, 0) in live.groups[group].commits)
                commit = live.groups[group].commits[TopicPartition(topic, 0)]
                assert commit.at is not None
                async with polling(servers, topic, group, "b", protocol):
                    await until(live, lambda: len(live.groups[group].members) == 2)
                    [record, *_] = await told(live, group, 1)
                    assert record.polled
                    assert b'"polled":true' in record.to_json()
                    assert record.cause == "member joined"
                await until(live, lambda: len(live.groups[group].members) == 1)
                await until(live, lambda: len(live.groups[group].owners) == 2)
                assert all(record.polled for record in live.groups[group].rebalances)


@PROTOCOLS
async def test_where_only_the_log_is_forbidden_the_journal_tells_each_rebalance(
    kohort: Workspace, protocol: str
) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    with kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED):
        async with polling(servers, topic, group, "a", protocol), watched(servers) as watching:
            live = watching.live
            async with polling(servers, topic, group, "b", protocol):
                await told(live, group, 1, lambda record: (record.source, record.cause) == ("journal", "member joined"))
            [*_, left] = await told(live, group, 1, lambda record: record.source == "journal" and bool(record.gone))
            assert left.gone[0].cause == "member left"
            assert live.sources[SourceKind.JOURNAL].state == "following"


async def test_the_log_is_read_as_soon_as_it_may_be(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", "classic"):
        await group.wait_async(state="Stable", owns={"a": 2})
        hidden = kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED)
        async with watched(servers) as watching:
            live = watching.live
            await until(live, lambda: SourceKind.ADMIN in live.sources)
            hidden.remove()
            await until(live, lambda: live.sources[SourceKind.LOG].state == "following")
            assert live.sources[SourceKind.ADMIN].state == "off"
            async with polling(servers, topic, group, "b", "classic"):
                joined = await told(live, group, 1, lambda record: record.cause == "member joined")
                assert not joined[-1].polled


async def test_a_deleted_group_and_a_denied_one(kohort: Workspace) -> None:
    topic, group, secret = kohort.topic("orders"), kohort.group(), kohort.group("secret")
    at = {TopicPartition(topic, 0): 0}
    for name in (group, secret):
        async with Consumer(
            bootstrap_servers=kohort.bootstrap_servers, group_id=name, enable_auto_commit=False
        ) as consumer:
            consumer.assign(list(at))
            await consumer.commit(at)
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with (
        kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED),
        kohort.fault(keys="DescribeGroups", group=secret, count=-1, error=denied) as hidden,
    ):
        async with watched(kohort.bootstrap_servers) as watching:
            live = watching.live
            assert group in live.groups
            problem = f"Group {secret} cannot be described: it needs the ACL Describe on the group."
            assert problem in live.problems
            async with Admin(bootstrap_servers=kohort.bootstrap_servers) as admin:
                await admin.delete_groups([group])
            await until(live, lambda: group not in live.groups)
            assert problem in live.problems
            hidden.remove()
            await until(live, lambda: problem not in live.problems and secret in live.groups)


async def test_a_consumer_group_whose_topics_may_not_be_described_is_a_problem(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders"), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", "consumer"):
        with (
            kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED),
            kohort.fault(keys="ConsumerGroupDescribe", group=group, count=-1, error=DENIED) as hidden,
        ):
            async with watched(servers) as watching:
                live = watching.live
                problem = f"Group {group} cannot be described: it needs the ACL Describe on the topics of its members."
                assert problem in live.problems
                hidden.remove()
                await until(live, lambda: problem not in live.problems and group in live.groups)


async def test_an_empty_list_of_groups_is_a_problem_until_a_group_may_be_described() -> None:
    with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        broker.fault(keys="Metadata", topic=LOG, count=-1, error=DENIED)
        async with watched(servers) as watching:
            live = watching.live
            assert list(live.problems) == [NO_GROUPS]
            async with polling(servers, "orders", "g", "a", "classic"):
                await until(live, lambda: "g" in live.groups and not live.problems)


@PROTOCOLS
@pytest.mark.parametrize("error", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
async def test_a_group_that_could_not_be_described_is_not_new_when_it_can(
    kohort: Workspace, protocol: str, error: ErrorCode
) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    async with polling(servers, topic, group, "a", protocol):
        await group.wait_async(state="Stable", owns={"a": 2})
        with (
            kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED),
            kohort.fault(keys="ListOffsets", topic=JOURNAL_TOPIC, count=-1, error=DENIED),
            kohort.fault(keys="DescribeGroups", group=group, count=-1, error=error) as classic,
            kohort.fault(keys="ConsumerGroupDescribe", group=group, count=-1, error=error) as consumer,
        ):
            async with watched(servers) as watching:
                live = watching.live
                await until(live, lambda: SourceKind.ADMIN in live.sources)
                assert group not in live.groups
                classic.remove()
                consumer.remove()
                await until(live, lambda: group in live.groups)
                assert [len(member.owned) for member in live.groups[group].members.values()] == [2]
                assert not live.groups[group].rebalances


@PROTOCOLS
async def test_a_new_group_has_a_first_member(kohort: Workspace, protocol: str) -> None:
    topic, group = kohort.topic("orders", partitions=2), kohort.group()
    servers = kohort.bootstrap_servers
    with (
        kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED),
        kohort.fault(keys="ListOffsets", topic=JOURNAL_TOPIC, count=-1, error=DENIED),
    ):
        async with watched(servers) as watching:
            await until(watching.live, lambda: SourceKind.ADMIN in watching.live.sources)
            async with polling(servers, topic, group, "a", protocol):
                [record, *_] = await told(watching.live, group, 1)
                assert (record.cause, record.polled) == ("first member", True)


async def committed(servers: str, group: str, at: TopicPartition) -> None:
    async with Consumer(bootstrap_servers=servers, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([at])
        await consumer.commit({at: 0})


def lost(live: Live, groups: set[str]) -> list[LiveEvent]:
    """Events after which a group was gone; more of them appear in the list."""
    found: list[LiveEvent] = []

    def sink(event: LiveEvent, _at: Millis) -> None:
        if not groups <= live.groups.keys():
            found.append(event)

    live.subscribe(sink)
    return found


async def test_a_group_that_its_coordinator_cannot_describe_now_is_not_deleted(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders"), kohort.group()
    await committed(kohort.bootstrap_servers, group, TopicPartition(topic, 0))
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with kohort.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED):
        async with watched(kohort.bootstrap_servers) as watching:
            gone = lost(watching.live, {group})
            with kohort.fault(keys="DescribeGroups", group=group, count=-1, error=loading) as failing:
                await failing.wait_async(hits=3)
            assert not gone


async def test_groups_of_a_broker_that_does_not_answer_are_not_deleted() -> None:
    with Cluster(2, topics={"orders": 1}) as brokers:
        groups = {f"g{number}" for number in range(10)}  # each broker coordinates some
        for group in groups:
            await committed(brokers.bootstrap_servers, group, TopicPartition("orders", 0))
        with brokers.fault(keys="Fetch", topic=LOG, count=-1, error=DENIED):
            async with watched(brokers.bootstrap_servers) as watching:
                assert groups <= watching.live.groups.keys()
                gone = lost(watching.live, groups)
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
                for node in (1, 2):
                    with brokers.fault(keys="ListGroups", nodes=node, count=-1, error=error) as failing:
                        await failing.wait_async(hits=3)
                assert not gone


async def test_a_rebalance_that_the_log_ended_first_is_over(kohort: Workspace) -> None:
    topic, group = kohort.topic("orders"), kohort.group()
    options = {"bootstrap_servers": kohort.bootstrap_servers}
    async with polling(kohort.bootstrap_servers, topic, group, "a", "classic"):
        await group.wait_async(state="Stable", owns={"a": 1})
        async with watched(kohort.bootstrap_servers) as watching, cluster(options) as client:
            live, states = watching.live, RebalancingStates(client, watching.live)
            # The answer to the last question was on its way when the log told the new generation.
            live.in_state(group, "PreparingRebalance", 0)
            states._known = {group}
            await client.refresh()
            await states.look()
            assert live.groups[group].state == "Stable"
