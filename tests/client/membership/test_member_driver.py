"""A membership and the driver of its state machine, with a broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kohort import Cluster, CommitFailedError, ConfigError, ErrorCode, KafkaError, Membership, TopicPartition
from kohort.assignor import find_assignors
from kohort.client import ClosedError, MembershipKeywords, Phase, SubscriptionPattern
from kohort.client.membership import MemberDriver, member_config
from kohort.client.options import GroupOptions
from kohort.member import CallbackKind, ConsumerMemberConfig, MemberConfig, OffsetAndMetadata, PollEnded
from kohort.testing import Broker, Invariant
from tests.broker.virtual import PORT, VirtualBroker
from tests.client.conftest import eventually

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = frozenset({T0, T1})
CLASSIC: MembershipKeywords = {
    "partition_assignment_strategy": "cooperative-sticky",
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 6_000,
    "retry_backoff_ms": 10,
}
CONSUMER: MembershipKeywords = {"group_protocol": "consumer", "retry_backoff_ms": 10}


class Told:
    """Arguments of the callbacks of a membership, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    def note(self, kind: str) -> Callable[[frozenset[TopicPartition]], None]:
        return lambda partitions: self.calls.append((kind, partitions))


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(settings={"group.heartbeat.hold.ms": "0"}, topics={"t": 2, "orders": 1}) as made:
        made.allow(Invariant.FETCHED_COMMITS)  # nothing is fetched
        yield made


@pytest.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    async with Cluster.of(broker.bootstrap_servers, retry_backoff_ms=10) as made:
        yield made


async def within(work: Awaitable[Any], limit: float = 5.0) -> Any:
    """Its result; fails where it takes longer."""
    async with asyncio.timeout(limit):
        return await work


async def join(cluster: Cluster, options: MembershipKeywords = CLASSIC, **callbacks: Any) -> Membership:
    joined: Membership = await within(Membership.join(cluster, "g", ["t"], options, **callbacks))
    return joined


# Options


def config(**given: Any) -> MemberConfig | ConsumerMemberConfig:
    return member_config(GroupOptions.read({"bootstrap_servers": "b:9092", "group_id": "g", **given}))


def test_assignors_are_named_in_a_list_or_in_a_text() -> None:
    for named in ("range, sticky", ["range", "sticky"], find_assignors(["range", "sticky"])):
        made = config(partition_assignment_strategy=named)
        assert isinstance(made, MemberConfig)
        assert [assignor.name for assignor in made.assignors] == ["range", "sticky"]


def test_a_member_of_a_consumer_group_has_an_id_of_its_own_and_no_assignors_unless_it_names_some() -> None:
    one, two = config(group_protocol="consumer"), config(group_protocol="consumer", group_local_assignors="range")
    assert isinstance(one, ConsumerMemberConfig) and isinstance(two, ConsumerMemberConfig)
    assert one.member_id and one.member_id != two.member_id
    assert one.client_assignors == ()
    assert [assignor.name for assignor in two.client_assignors] == ["range"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_empty_rack_is_no_rack(protocol: str) -> None:
    assert config(group_protocol=protocol).rack_id is None
    assert config(group_protocol=protocol, client_rack="r").rack_id == "r"


def test_a_heartbeat_must_come_before_the_session_ends() -> None:
    with pytest.raises(ConfigError, match="below session_timeout_ms"):
        config(heartbeat_interval_ms=6_000, session_timeout_ms=6_000)
    config(heartbeat_interval_ms=5_999, session_timeout_ms=6_000)
    with pytest.raises(ConfigError, match="group_id is missing"):
        config(group_id="")


# Joining and callbacks


@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
async def test_a_join_returns_when_its_callback_has_ended(cluster: Cluster, options: MembershipKeywords) -> None:
    told, changes = Told(), list[Phase]()

    async def assigned(partitions: frozenset[TopicPartition]) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        told.note("assigned")(partitions)

    member = await join(
        cluster,
        options,
        on_assigned=assigned,
        on_revoked=told.note("revoked"),
        on_change=lambda changed: changes.append(changed.state),
    )
    assert told.calls == [("assigned", BOTH)]
    assert member.assignment == BOTH
    assert changes[-1] is Phase.STABLE
    assert member.is_leader is (options is CLASSIC)
    await within(member.leave())
    assert told.calls == [("assigned", BOTH), ("revoked", BOTH)]
    assert changes[-1].value == Phase.UNSUBSCRIBED.value


async def test_a_join_does_not_return_before_the_names_of_the_assigned_topics_are_known(
    cluster: Cluster, broker: Broker
) -> None:
    # The coordinator of a consumer group assigns topic IDs.
    await cluster.refresh()
    beats = broker.fault(keys="ConsumerGroupHeartbeat", observe=True)
    held = broker.fault(keys="Metadata", hold=True, when="after", count=-1)
    joining = asyncio.ensure_future(join(cluster, CONSUMER))
    await beats.wait_async()
    await held.wait_async()
    done, _ = await asyncio.wait([joining], timeout=0.1)
    assert not done
    held.remove()
    member = await within(joining)
    assert member.assignment == BOTH
    await within(member.leave())


async def test_a_topic_may_be_given_as_a_text(cluster: Cluster) -> None:
    member = await within(Membership.join(cluster, "g", "orders"))
    assert member.assignment == {TopicPartition("orders", 0)}
    with pytest.raises(ConfigError, match="at least one topic"):
        member.subscribe([])
    member.subscribe("t")
    await within(member.settled())
    assert member.assignment == BOTH
    with pytest.raises(ConfigError, match="only members with group_protocol consumer"):
        member.set_weight(2.0)
    await within(member.leave())


async def test_the_broker_evaluates_a_pattern(cluster: Cluster) -> None:
    member = await within(Membership.join(cluster, "g", SubscriptionPattern("t|orders"), CONSUMER))
    await eventually(lambda: member.assignment == BOTH | {TopicPartition("orders", 0)}, within=5)
    await within(member.leave())


@pytest.mark.parametrize("has_on_lost", [True, False])
async def test_lost_partitions_are_told_to_on_lost_or_else_to_on_revoked(
    cluster: Cluster, broker: Broker, has_on_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    on_lost = told.note("lost") if has_on_lost else None
    member = await join(cluster, on_revoked=told.note("revoked"), on_lost=on_lost)
    broker.fault(keys="Heartbeat", error="UNKNOWN_MEMBER_ID")
    await eventually(lambda: bool(told.calls), within=5)
    assert told.calls[0] == ("lost" if has_on_lost else "revoked", BOTH)
    assert "lost 2 partitions, which others may process by now: the coordinator does not know the member" in caplog.text
    await within(member.leave())


async def test_the_first_failure_of_a_callback_is_raised_when_the_member_leaves(cluster: Cluster) -> None:
    def fail(problem: type[Exception]) -> Callable[[frozenset[TopicPartition]], None]:
        def callback(partitions: frozenset[TopicPartition]) -> None:
            raise problem

        return callback

    member = await join(cluster, on_assigned=fail(ZeroDivisionError), on_revoked=fail(LookupError))
    assert isinstance(member.failure, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        await within(member.leave())
    await within(member.leave())


async def test_those_who_wait_for_a_member_do_not_disturb_each_other(cluster: Cluster, broker: Broker) -> None:
    held = broker.fault(keys="JoinGroup", hold=True, when="after")
    member = Membership(cluster, GroupOptions.read({"bootstrap_servers": "b:1", "group_id": "g", **CLASSIC}))
    member.subscribe(["t"])
    one, two, three = (asyncio.ensure_future(member.settled()) for _ in range(3))
    await asyncio.sleep(0)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    held.remove()
    await within(asyncio.gather(two, three))
    await within(member.leave())


async def test_a_join_that_is_refused_raises_and_leaves_nothing(cluster: Cluster, broker: Broker) -> None:
    broker.fault(keys="FindCoordinator", error="GROUP_AUTHORIZATION_FAILED", count=-1)
    with pytest.raises(KafkaError) as raised:
        await within(Membership.join(cluster, "g", ["t"], CLASSIC))
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    del raised
    gc.collect()  # an unclosed membership would warn, which is an error here


async def test_a_member_that_failed_can_subscribe_again(cluster: Cluster, broker: Broker) -> None:
    refusal = broker.fault(keys="FindCoordinator", error="GROUP_AUTHORIZATION_FAILED", count=-1)
    member = Membership(cluster, GroupOptions.read({"bootstrap_servers": "b:1", "group_id": "g", **CLASSIC}))
    member.subscribe(["t"])
    with pytest.raises(KafkaError):
        await within(member.settled())
    refusal.remove()
    member.subscribe(["t"])
    assert member.error is None
    await within(member.settled())
    assert member.assignment == BOTH
    await within(member.leave())


async def test_an_unclosed_membership_warns(broker: Broker) -> None:
    cluster = Cluster.of(broker.bootstrap_servers)
    member = Membership(cluster, GroupOptions.read({"bootstrap_servers": "b:1", "group_id": "g"}))
    with pytest.warns(ResourceWarning, match="unclosed"):
        member.__del__()
    await member.leave()
    member.__del__()
    Membership.__new__(Membership).__del__()  # its constructor was interrupted
    await cluster.close()


# Commits


@pytest.mark.parametrize("options", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
async def test_a_commit_ends_when_it_is_answered(cluster: Cluster, broker: Broker, options: MembershipKeywords) -> None:
    member = await join(cluster, options)
    held = broker.fault(keys="OffsetCommit", hold=True, when="after", count=-1)
    one = asyncio.ensure_future(member.commit({T0: 5}))
    two = asyncio.ensure_future(member.commit({T0: 6, T1: OffsetAndMetadata(7, "note")}))
    given_up = asyncio.ensure_future(member.commit({T1: 8}))
    await held.wait_async()
    given_up.cancel()
    assert not one.done() and not two.done()
    held.remove()
    await within(asyncio.gather(one, two))
    await within(member.commit({}))
    await within(member.commit({T0: 9}, timeout=5))
    found = await within(member.committed([T0, T1]))
    assert found[T0] == OffsetAndMetadata(9)
    await within(member.leave())
    with pytest.raises(ClosedError, match="the member is closed"):
        await member.commit({T0: 10})


async def test_a_commit_fails_at_its_timeout_with_the_reason(cluster: Cluster, broker: Broker) -> None:
    member = await join(cluster)
    refusal = broker.fault(keys="OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", count=-1)
    with pytest.raises(CommitFailedError) as raised:
        await within(member.commit({T0: 5}, timeout=0.05))
    assert raised.value.errors == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    refusal.remove()
    with pytest.raises(ConfigError, match="timeout"):
        await member.commit({T0: 5}, timeout=-1)
    await within(member.leave())


# Leaving


async def test_a_member_that_began_to_report_must_go_on(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    lost: list[TopicPartition] = []
    member = await join(cluster, {**CLASSIC, "max_poll_interval_ms": 100}, on_lost=lost.extend)
    member.alive()
    await eventually(lambda: member.state is Phase.STALE, within=5)
    assert not lost
    assert "the application has not polled for max_poll_interval_ms (100 ms)" in caplog.text
    member.alive()
    await eventually(lambda: set(lost) == BOTH, within=5)
    await within(member.leave())


async def test_leaving_does_not_wait_for_a_coordinator_longer_than_it_may(
    cluster: Cluster, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    member = await join(cluster)
    broker.fault(keys="LeaveGroup", hold=True, when="after")
    await within(member.leave(timeout=0.05))
    assert "the coordinator did not answer: group=g member=" in caplog.text


async def test_the_time_of_a_callback_does_not_count_when_a_member_leaves(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = asyncio.Event()

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        await may_end.wait()

    member = await join(cluster, on_revoked=revoked)
    leaving = asyncio.ensure_future(member.leave(timeout=0.5))
    _, pending = await asyncio.wait([leaving], timeout=0.7)
    assert pending, "it waits for the callback"
    may_end.set()
    await within(leaving)
    assert "did not answer" not in caplog.text


async def test_closing_fails_commits_and_cancels_what_runs(cluster: Cluster, broker: Broker) -> None:
    began, ended = asyncio.Event(), list[bool]()

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(50):
                await asyncio.sleep(0)
            ended.append(True)

    member = await join(cluster, on_revoked=revoked)
    broker.fault(keys="OffsetCommit", hold=True, when="after")
    committing = asyncio.ensure_future(member.commit({T0: 5}))
    waiting = asyncio.ensure_future(member.settled())
    await within(waiting)
    leaving = asyncio.ensure_future(member.leave())
    await within(began.wait())
    waiting = asyncio.ensure_future(member.settled())
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(leaving)
    assert ended == [True]
    with pytest.raises(ClosedError, match="before the commit was answered"):
        await within(committing)
    with pytest.raises(ClosedError, match="has left"):
        await within(waiting)
    running = {task.get_name() for task in asyncio.all_tasks()}
    assert not [name for name in running if name.startswith("kohort-revoke")]


async def test_no_callback_begins_after_a_leave_that_was_cancelled(cluster: Cluster) -> None:
    began, told = asyncio.Event(), Told()

    async def assigned(partitions: frozenset[TopicPartition]) -> None:
        began.set()
        await asyncio.Event().wait()

    given = GroupOptions.read({"bootstrap_servers": "b:1", "group_id": "g", **CLASSIC})
    member = Membership(cluster, given, on_assigned=assigned, on_revoked=told.note("revoked"))
    member.subscribe(["t"])
    await within(began.wait())
    leaving = asyncio.ensure_future(member.leave())
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(leaving)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not told.calls


async def test_those_who_wait_for_a_member_are_told_that_it_left(cluster: Cluster, broker: Broker) -> None:
    held = broker.fault(keys="JoinGroup", hold=True, when="after")
    member = Membership(cluster, GroupOptions.read({"bootstrap_servers": "b:1", "group_id": "g", **CLASSIC}))
    member.subscribe(["t"])
    waiting = asyncio.ensure_future(member.settled())
    await held.wait_async()
    await within(member.leave(timeout=0.05))
    with pytest.raises(ClosedError, match="has left"):
        await within(waiting)


async def test_a_static_member_keeps_its_place_unless_it_leaves_for_good(cluster: Cluster, broker: Broker) -> None:
    static: MembershipKeywords = {**CLASSIC, "group_instance_id": "i"}
    goodbyes = broker.fault(keys="LeaveGroup", observe=True, count=-1)
    member = await join(cluster, static)
    await within(member.leave())
    assert goodbyes.hits == 0
    member = await join(cluster, static)
    await within(member.leave(for_good=True))
    assert goodbyes.hits == 1


# The driver alone


async def test_only_a_member_whose_group_is_computed_by_members_may_ask_for_a_new_assignment(
    cluster: Cluster,
) -> None:
    callbacks: list[CallbackKind] = []
    for options, allowed in (
        (CLASSIC, True),
        (CONSUMER, False),
        ({**CONSUMER, "group_local_assignors": "range"}, True),
    ):
        given = {"bootstrap_servers": "b:1", "group_id": "g", **options}
        driver = MemberDriver(
            cluster,
            member_config(GroupOptions.read(given)),
            lambda kind, partitions: callbacks.append(kind),
            lambda: None,
        )
        if allowed:
            driver.rejoin("there is news")
        else:
            with pytest.raises(ConfigError, match="the broker computes"):
                driver.rejoin("there is news")
        if options is CLASSIC:
            with pytest.raises(ConfigError, match="only members with group_protocol consumer"):
                driver.weigh(2.0)
        else:
            driver.weigh(2.0)
        with pytest.raises(ConfigError, match="weight"):
            driver.weigh(-1.0)
        await driver.close()
    assert callbacks == []


def driver_of(cluster: Cluster, options: MembershipKeywords) -> MemberDriver:
    """A driver whose callbacks end at once."""
    given = {"bootstrap_servers": "b:1", "group_id": "g", **options}

    def called(kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        asyncio.get_running_loop().call_soon(driver.callback_done)

    driver = MemberDriver(cluster, member_config(GroupOptions.read(given)), called, lambda: None)
    return driver


def noted(broker: Broker, field: str) -> list[object]:
    """The values of a field in all requests from now on."""
    found: list[object] = []
    broker.observe(lambda event: found.append(getattr(getattr(event, "request", None), field, None)))
    return found


async def test_a_new_weight_is_sent(cluster: Cluster, broker: Broker) -> None:
    weights = noted(broker, "weight")
    driver = driver_of(cluster, CONSUMER)
    driver.subscribe(frozenset({"t"}))
    await eventually(lambda: driver.member.is_answered, within=5)
    driver.weigh(2.0)
    await eventually(lambda: 2.0 in weights, within=5)
    await driver.leave("the test ends", 1_000)
    await driver.close()


async def test_a_rejoin_is_sent_with_its_reason(cluster: Cluster, broker: Broker) -> None:
    reasons = noted(broker, "reason")
    driver = driver_of(cluster, CLASSIC)
    driver.subscribe(frozenset({"t"}))
    await eventually(lambda: driver.member.is_answered and not driver.callback_runs, within=5)
    driver.rejoin("there is news")
    await eventually(lambda: "there is news" in reasons, within=5)
    await driver.leave("the test ends", 1_000)
    await driver.close()


async def test_nothing_keeps_a_closed_driver(cluster: Cluster) -> None:
    # No timer, no request and no watcher of topics is left that would call it.
    driver = driver_of(cluster, CLASSIC)
    member = driver.member
    driver.subscribe(frozenset({"t"}))
    await eventually(lambda: member.is_answered, within=5)
    await driver.close()
    await asyncio.sleep(0)
    left = weakref.ref(driver)
    del driver
    gc.collect()
    assert left() is None


async def test_a_closed_driver_hears_of_nothing_any_more(cluster: Cluster) -> None:
    changes: list[int] = []
    given = {"bootstrap_servers": "b:1", "group_id": "g", **CLASSIC}
    driver = MemberDriver(cluster, member_config(GroupOptions.read(given)), lambda *_: None, lambda: changes.append(1))
    driver.subscribe(frozenset({"t"}))
    await eventually(lambda: driver.callback_runs, within=5)
    assert driver.member.phase is Phase.STABLE
    driver.callback_done()
    assert not driver.callback_runs
    await driver.close()
    before = len(changes)
    assert before > 0
    await cluster.refresh()
    driver.subscribe(frozenset({"u"}))
    assert len(changes) == before


# In virtual time


async def joining(cluster: Cluster) -> tuple[MemberDriver, list[CallbackKind]]:
    """A driver whose first callback has begun, and the callbacks, which the test ends."""
    begun: list[CallbackKind] = []
    driver = MemberDriver(cluster, config(**CLASSIC), lambda kind, partitions: begun.append(kind), lambda: None)
    driver.subscribe(frozenset({"t"}))
    await eventually(lambda: begun == [CallbackKind.ASSIGN])
    return driver, begun


def with_a_broker(steps: Callable[[VirtualBroker, Cluster], Awaitable[None]]) -> None:
    world = VirtualBroker({"group.initial.rebalance.delay.ms": "0", "group.heartbeat.hold.ms": "0"})

    async def run() -> None:
        world.broker.topics.create("t", 2)
        async with Cluster.of(f"127.0.0.1:{PORT}") as cluster:
            await steps(world, cluster)
            world.network.heal_all()

    world.play(run())
    world.play(world.broker.stop())


@pytest.mark.parametrize(("own", "takes"), [(0.0, 8), (3.0, 5)])
def test_only_the_applications_time_in_callbacks_does_not_count_when_a_member_leaves(own: float, takes: int) -> None:
    async def steps(world: VirtualBroker, cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        driver, begun = await joining(cluster)
        await asyncio.sleep(100)
        driver.callback_done()
        await eventually(lambda: driver.member.is_answered)
        world.network.block("broker", "broker")
        began = loop.time()
        leaving = asyncio.ensure_future(driver.leave("the test ends", 5_000))
        await asyncio.sleep(3)
        assert begun[1:] == [CallbackKind.REVOKE]
        driver.callback_done(own=own)
        await leaving
        assert loop.time() - began == pytest.approx(takes, abs=0.1)
        await driver.close()

    with_a_broker(steps)


def test_a_callback_that_waits_for_its_poll_counts_from_when_its_member_leaves() -> None:
    async def steps(world: VirtualBroker, cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        driver, begun = await joining(cluster)
        await asyncio.sleep(100)
        world.network.block("broker", "broker")
        began = loop.time()
        leaving = asyncio.ensure_future(driver.leave("the test ends", 5_000))
        await asyncio.sleep(1)
        driver.callback_done()
        driver.handle(PollEnded())  # more news in the same turn
        await eventually(lambda: begun[1:] == [CallbackKind.REVOKE])
        driver.callback_done()
        await leaving
        assert loop.time() - began == pytest.approx(6, abs=0.1)
        await driver.close()

    with_a_broker(steps)


@pytest.mark.parametrize("has_joined", [True, False])
def test_a_closed_driver_leaves_no_connection(has_joined: bool) -> None:
    async def steps(world: VirtualBroker, cluster: Cluster) -> None:
        await cluster.refresh(["t"])
        before = len(world.broker.sockets)
        if has_joined:
            driver, _ = await joining(cluster)
            assert len(world.broker.sockets) > before
        else:
            driver = MemberDriver(cluster, config(**CLASSIC), lambda kind, partitions: None, lambda: None)
            driver.subscribe(frozenset({"t"}))
            await asyncio.sleep(0)
        await driver.close()
        await asyncio.sleep(10)
        assert len(world.broker.sockets) == before

    with_a_broker(steps)


@pytest.mark.parametrize(("options", "longest"), [(CLASSIC, 2), (CONSUMER, 15)], ids=["classic", "consumer"])
def test_an_event_loop_that_stands_still_for_a_third_of_the_session_is_logged(
    options: MembershipKeywords, longest: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(world: VirtualBroker, cluster: Cluster) -> None:
        driver = MemberDriver(cluster, config(**options), lambda kind, partitions: None, lambda: None)
        for seconds, is_logged in ((longest - 1, False), (2 * longest, True)):
            world.agenda.now += seconds
            await asyncio.sleep(1)
            assert ("the event loop stood still" in caplog.text) is is_logged
        await driver.close()

    with_a_broker(steps)


def test_each_change_of_a_members_phase_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kohort.client.membership.driver")

    async def steps(world: VirtualBroker, cluster: Cluster) -> None:
        driver, begun = await joining(cluster)
        driver.callback_done()
        await asyncio.sleep(60)
        leaving = asyncio.ensure_future(driver.leave("the test ends", 5_000))
        await eventually(lambda: begun[1:] == [CallbackKind.REVOKE])
        driver.callback_done()
        await leaving
        await driver.close()

    with_a_broker(steps)
    told = [record.getMessage() for record in caplog.records]
    phases = [line.split(": ", 1)[1].split(" (")[0].split(" -> ") for line in told]
    assert (phases[0][0], phases[-1][1]) == (Phase.UNSUBSCRIBED.value, Phase.UNSUBSCRIBED.value)
    assert all(before != after for before, after in phases)
    assert [after for _, after in phases[:-1]] == [before for before, _ in phases[1:]]


async def test_a_commit_that_nobody_awaits_any_more_fails_in_silence(cluster: Cluster) -> None:
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    driver = driver_of(cluster, CLASSIC)
    commit = driver.commit({T0: OffsetAndMetadata(5)}, 1_000)
    commit.send(None)
    commit.close()
    await driver.close()
    await asyncio.sleep(0)
    del driver, commit
    gc.collect()
    assert not problems
