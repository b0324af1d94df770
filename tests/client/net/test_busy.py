"""A busy application does not starve its member: in the blocking face heartbeats go on in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from kohort import Consumer as AsyncConsumer
from kohort import NewTopic, TopicPartition
from kohort.blocking import Admin, Consumer
from kohort.client import Phase
from tests.interop.broker import Broker
from tests.interop.kohort import running_kohort

SESSION_S = 2.0


async def test_a_blocked_event_loop_is_logged(
    kohort_broker: Broker, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    # With asyncio heartbeats share the loop with the application: the one thing that it must know.
    options: dict[str, Any] = {"group_id": fresh, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
    async with AsyncConsumer(fresh, bootstrap_servers=kohort_broker.bootstrap, **options) as consumer:
        async with asyncio.timeout(20):
            while consumer.state is not Phase.STABLE:
                await consumer.poll(timeout=0.05)
        assert "stood still" not in caplog.text
        time.sleep(3.5)  # noqa: ASYNC251  what is tested
        async with asyncio.timeout(20):
            while "the event loop stood still for" not in caplog.text:
                await consumer.poll(timeout=0.05)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_thread_that_computes_for_longer_than_a_session_stays_in_the_group(protocol: str, fresh: str) -> None:
    told: list[str] = []
    session = str(int(SESSION_S * 1000))
    sessions = {
        "group_min_session_timeout_ms": "1000",
        "group_consumer_min_session_timeout_ms": "1000",
        "group_consumer_session_timeout_ms": session,
        "group_consumer_min_heartbeat_interval_ms": "100",
        "group_consumer_heartbeat_interval_ms": "200",
        "group_initial_rebalance_delay_ms": "0",
    }
    options: dict[str, Any] = {"group_protocol": protocol, "group_id": fresh}
    if protocol == "classic":
        options |= {"session_timeout_ms": session, "heartbeat_interval_ms": 200}

    def gone(partitions: frozenset[TopicPartition]) -> None:
        told.append(f"gone {len(partitions)}")

    with running_kohort(**sessions) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(fresh, 2)])
        with Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.subscribe([fresh], on_revoked=gone)
            while len(consumer.assignment) != 2:
                consumer.poll(timeout=0.1)
            member_id, generation = consumer.member_id, consumer.generation
            until, rounds = time.monotonic() + 2.5 * SESSION_S, 0
            while time.monotonic() < until:  # what is tested: it gives no other thread of its own accord a turn
                rounds += sum(range(1000))
            [member] = admin.describe_groups([fresh])[fresh].members
            consumer.poll(timeout=0.1)
            assert (member.member_id, consumer.generation, told) == (member_id, generation, [])
