"""Controls of the kit with real clients: who is killed expires at once, and whoever lives goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from kohort import blocking
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.group_events import Cause, MemberGone
from kohort.model import TopicPartition
from kohort.testing import AnswerSent, Broker, Cluster, ConnectionClosed, Event, GroupChanged, KitActed, RequestReceived
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

DAY = 86_400_000
PATIENCE_S = 30.0


class Seen(list[Event]):
    """The events so far."""

    @property
    def gone(self) -> list[tuple[str, Cause]]:
        changes = [event.event for event in self if isinstance(event, GroupChanged)]
        return [(event.member.client_id, event.cause) for event in changes if isinstance(event, MemberGone)]

    @property
    def acts(self) -> list[str]:
        return [event.what for event in self if isinstance(event, KitActed)]


@contextmanager
def running(*, topics: dict[str, int] | None = None, **options: Any) -> Iterator[tuple[Broker, Seen]]:
    seen = Seen()
    with Broker(topics=topics or {"orders": 4}, observers=[seen.append], **options) as broker:
        yield broker, seen


class Confluent:
    """A member by confluent-kafka, which is polled while the test waits."""

    def __init__(self, broker: Broker, name: str, protocol: str, **options: Any) -> None:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "client.id": name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            **options,
        }
        if protocol == "classic":
            config = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 3_000, **config}
        self.name = name
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe(["orders"])

    @property
    def owned(self) -> int:
        self.consumer.poll(0.01)
        return len(self.consumer.assignment())


def until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, f"after {PATIENCE_S:.0f} s not yet: {what}"


@contextmanager
def process(broker: Broker, name: str, protocol: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another member, which the test can kill."""
    code = f"""
import confluent_kafka
consumer = confluent_kafka.Consumer({{
    "bootstrap.servers": {broker.bootstrap_servers!r}, "group.id": "g", "client.id": {name!r},
    "group.protocol": {protocol!r}
}})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.1)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        try:
            yield running
        finally:
            running.kill()


def names_of(broker: Broker, group: str = "g") -> set[str]:
    """The members of a group, by client ID."""
    found = broker._run(lambda: list(broker._controls._members()))
    return {next(iter(names - {key[1]}), "") for key, names in found if key[0] == group}


def is_stable(broker: Broker, members: int) -> bool:
    group = broker._run(lambda: broker.node.groups.shard("g").group("g"))
    return group is not None and group.state.value == "Stable" and len(group.members) == members


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_killed_expires_by_a_jump_and_the_living_stay(protocol: str) -> None:
    settings = {"group.disconnect.grace.ms": "0"}  # as in Kafka, only the end of its session tells that it is dead
    with running(settings=settings) as (broker, seen), ExitStack() as stack:
        members = [Confluent(broker, name, protocol) for name in ("a", "b")]
        for member in members:
            stack.callback(member.consumer.close)
        with process(broker, "c", protocol) as third:
            until(lambda: 0 < sum(m.owned for m in members) < 4 and is_stable(broker, 3), "three members")
            third.kill()
            third.wait()
        began = time.monotonic()
        broker.advance(45_000)
        assert time.monotonic() - began < 1
        assert seen.gone == [("c", Cause.SESSION_EXPIRED)]
        until(lambda: sum(m.owned for m in members) == 4, "two members have everything")
        broker.advance(45_000)
        assert seen.gone == [("c", Cause.SESSION_EXPIRED)]
        assert seen.acts == ["let 45000 ms pass"] * 2


def test_offsets_of_a_group_that_is_empty_expire_without_a_week_and_those_of_a_living_one_stay() -> None:
    with running() as (broker, _):
        servers = broker.bootstrap_servers
        with blocking.Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"one", partition=0).result()
        for group in ("empty", "living"):
            with blocking.Consumer(
                "orders", bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
            ) as consumer:
                assert consumer.poll()
                consumer.commit()
        with blocking.Consumer("orders", bootstrap_servers=servers, group_id="living") as living:
            living.poll(timeout=0.1)
            with blocking.Admin(bootstrap_servers=servers) as admin:
                assert admin.group_offsets("empty")
                broker.advance(8 * DAY)
                assert not admin.group_offsets("empty")
                assert admin.group_offsets("living")
            assert len(names_of(broker, "living")) == 1


def test_records_that_are_older_than_their_retention_are_deleted_and_later_ones_stay() -> None:
    with running(topics={"orders": 1}) as (broker, _):
        servers = broker.bootstrap_servers
        with blocking.Producer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"old").result()
            broker.advance(8 * DAY)
            broker.advance(1)
            producer.send("orders", b"new").result()
            broker.advance(DAY)
        with blocking.Consumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            [record] = consumer.poll()
            assert record.value == b"new"
            assert abs(record.timestamp - time.time() * 1000) < 60_000, "timestamps stay real"


def test_a_static_member_is_fenced_by_another_process_with_its_instance_id() -> None:
    for protocol in ("classic", "consumer"):
        with running() as (broker, seen):
            with (
                pytest.raises(KafkaError),
                blocking.Consumer(
                    "orders",
                    bootstrap_servers=broker.bootstrap_servers,
                    group_id="g",
                    group_instance_id="i-1",
                    group_protocol=protocol,
                ) as consumer,
            ):
                until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
                new = broker.fence_instance("g", "i-1")
                until(lambda: bool(consumer.poll(timeout=0.01)), "fenced")
            assert broker.expire_member("g", "i-1") == new
            assert not names_of(broker)
            assert f"expired member {new} of g" in seen.acts


def test_a_member_is_expired_by_any_of_its_names_and_joins_again() -> None:
    with running() as (broker, seen):
        with blocking.Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", client_id="worker"
        ) as consumer:
            until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
            first = broker.expire_member("g", "worker")
            assert seen.gone == [("worker", Cause.SESSION_EXPIRED)]
            until(lambda: not consumer.poll(timeout=0.01) and names_of(broker) == {"worker"}, "joined again")
            assert broker.expire_member("g", "worker") != first
            with pytest.raises(KohortError, match="0 members of the group g are 'nobody'"):
                broker.expire_member("g", "nobody")


def test_a_coordinator_that_moves_and_loads_is_found_again_by_its_members() -> None:
    with running() as (broker, seen):
        with (
            blocking.Consumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer,
            blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
            broker.move_coordinator("g")
            producer.send("orders", b"one", partition=0).result()
            assert consumer.poll()
            consumer.commit()
            with broker.load_coordinator("g"), pytest.raises(KafkaError) as refused:
                consumer.commit(timeout=0.3)
            assert refused.value.code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT)
            consumer.commit()
            assert not seen.gone, "its session lasts"
            broker.load_coordinator("g", ms=1).undo()
            consumer.commit()


def test_a_partition_without_a_leader_is_not_written_to_until_it_has_one_again() -> None:
    with running(topics={"orders": 1}) as (broker, _):
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("orders", b"one").result()
            with broker.lose_leader("orders", 0):
                later = producer.send("orders", b"two")
                with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
                    later.result(timeout=0.3)
            assert later.result().offset == 1


def test_the_end_of_an_outage_does_not_end_a_later_one() -> None:
    with running(topics={"orders": 1}) as (broker, _):
        first = broker.lose_leader("orders", 0, ms=1)
        with broker.lose_leader("orders", 0):
            first.undo()
            with pytest.raises(KafkaError, match="No broker leads orders-0"):
                broker.topic("orders").produce("a")
        broker.topic("orders").produce("a")


def test_topics_grow_and_are_made_anew() -> None:
    with running(topics={"orders": 1}) as (broker, seen):
        broker.grow_topic("orders", 3)
        before = broker._run(lambda: broker.node.topics.named("orders"))
        assert before is not None and before.partitions == 3
        topic_id = broker.recreate_topic("orders")
        after = broker._run(lambda: broker.node.topics.named("orders"))
        assert after is not None and after.partitions == 3
        assert after.topic_id == topic_id != before.topic_id
        broker.delete_topic("orders")
        with pytest.raises(KafkaError, match="The topic 'orders' does not exist"):
            broker.delete_topic("orders")
        anew = [event.topics for event in seen if isinstance(event, KitActed) and event.topics]
        assert anew == [frozenset({"orders"})] * 3


def test_members_of_a_frozen_broker_get_answers_and_do_not_expire() -> None:
    settings = {"group.consumer.session.timeout.ms": "400", "group.consumer.heartbeat.interval.ms": "100"}
    with running(settings=settings) as (broker, seen):
        with blocking.Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", group_protocol="consumer"
        ) as consumer:
            until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
            broker.scale_time(0)
            shown = broker._run(broker.node.now)
            beats = [1 for event in seen if isinstance(event, RequestReceived)]
            until(lambda: len([1 for event in seen if isinstance(event, RequestReceived)]) > len(beats) + 5, "beats")
            assert broker._run(broker.node.now) == shown
            broker.advance(100)
            assert broker._run(broker.node.now) == shown + 100
            broker.scale_time(1)
            assert not seen.gone


def test_a_consumer_member_of_a_fast_broker_is_told_a_shorter_interval_and_lives() -> None:
    with running() as (broker, seen):
        broker.scale_time(20)
        member = Confluent(broker, "a", "consumer")
        try:
            until(lambda: member.owned == 4, "assigned")
            start = broker._run(broker.node.now)
            until(lambda: member.owned == 4 and broker._run(broker.node.now) > start + 60_000, "a minute")
            assert not seen.gone
        finally:
            member.consumer.close()
        answers = [event.response for event in seen if isinstance(event, AnswerSent)]
        told = {a.heartbeat_interval_ms for a in answers if isinstance(a, ConsumerGroupHeartbeatResponse)}
        assert told and max(told) <= 5_000 / 20


def test_time_does_not_go_back() -> None:
    with running() as (broker, _):
        with pytest.raises(ValueError, match="Time does not go back: -1 ms is negative"):
            broker.advance(-1)
        with pytest.raises(ValueError, match="between 0 and a million, not -2"):
            broker.scale_time(-2)


def test_in_a_cluster_another_broker_takes_over_and_no_member_is_lost() -> None:
    seen = Seen()
    with Cluster(2, topics={"orders": 2}, observers=[seen.append]) as cluster:
        with blocking.Consumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
            until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
            before = cluster._run(lambda: cluster._controls._coordinator("g")[0].node_id)
            cluster.move_coordinator("g")
            assert cluster._run(lambda: cluster._controls._coordinator("g")[0].node_id) != before
            cluster.advance(30_000)
            cluster.advance(30_000)
            until(lambda: not consumer.poll(timeout=0.01) and bool(consumer.assignment), "still a member")
            assert not seen.gone

        def leader() -> int:
            topic = cluster.nodes[0].topics.named("orders")
            assert topic is not None
            return cluster.nodes[0].leadership.leader(topic, 0).node_id

        led_by = cluster._run(leader)
        cluster.move_leader("orders", 0)
        assert cluster._run(leader) != led_by
        with pytest.raises(KohortError, match="In a cluster"):
            cluster.lose_leader("orders", 0)
        with pytest.raises(KohortError, match="There is no broker 7"):
            cluster.move_leader("orders", 0, to=7)


async def test_members_of_another_library_live_through_a_jump_and_join_again_when_one_is_expired() -> None:
    seen = Seen()
    async with Broker(topics={"orders": 4}, observers=[seen.append]) as broker, AsyncExitStack() as stack:
        members = []
        for name in ("a", "b"):
            member = aiokafka.AIOKafkaConsumer(
                "orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", client_id=name
            )
            await member.start()
            stack.push_async_callback(member.stop)
            members.append(member)

        async def shared() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while [len(member.assignment()) for member in members] != [2, 2] or not is_stable(broker, 2):
                    await members[0].getmany(timeout_ms=10)

        await shared()
        for _ in range(3):
            broker.advance(45_000)
        assert not seen.gone
        broker.expire_member("g", "b")
        assert seen.gone == [("b", Cause.SESSION_EXPIRED)]
        await shared()
        assert seen.gone == [("b", Cause.SESSION_EXPIRED)]


def test_logins_do_not_expire_when_time_is_advanced() -> None:
    settings = {"connections.max.reauth.ms": "3600000"}
    with running(users={"alice": "wonderland"}, settings=settings) as (broker, seen):
        login: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "wonderland",
        }
        with blocking.Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", **login) as consumer:
            until(lambda: bool(consumer.poll(timeout=0.01) or consumer.assignment), "assigned")
            closed = sum(isinstance(event, ConnectionClosed) for event in seen)
            broker.advance(DAY)
            consumer.commit({TopicPartition("orders", 0): 0})
            assert sum(isinstance(event, ConnectionClosed) for event in seen) == closed
            assert not seen.gone


def test_timers_that_run_already_follow_another_rate() -> None:
    with Broker(topics={"orders": 1}) as broker:
        group = broker.group("g")
        broker.fault(keys="LeaveGroup", error="NOT_COORDINATOR", count=-1)
        with blocking.Consumer(
            "orders", bootstrap_servers=broker.bootstrap_servers, group_id=group, group_protocol="classic"
        ) as consumer:
            consumer.poll(timeout=0)
            group.wait(state="Stable", members=1)
            consumer.close(timeout=0.1)
        group.wait(members=1)
        broker.scale_time(100)
        group.wait(members=0, timeout_s=3)  # otherwise some seconds after its connection ended
