"""A broker that is killed and restarted causes no rebalance while sessions last, under either protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kohort import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.client.conftest import eventually
from tests.conftest import QUICK_CONSUMER_GROUPS, need_jars
from tests.interop.kafka import free_ports, running_kafka
from tests.interop.kohort import kohort_to_kill

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}
SESSIONS = {**QUICK_CONSUMER_GROUPS, "group.consumer.session.timeout.ms": "45000"}


@dataclass
class Mortal:
    """A broker that can be killed and started again at the same address."""

    bootstrap: str
    kill: Callable[[], object]
    start_again: Callable[[], object]


@pytest.fixture(params=["kohort", pytest.param("kafka", marks=pytest.mark.kafka)])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mortal]:
    if request.param == "kafka":
        need_jars(request.config)
        with running_kafka(SESSIONS) as kafka:
            yield Mortal(kafka.bootstrap, lambda: kafka.process.kill(), kafka.start_again)
        return
    [port] = free_ports(1)
    settings = {name.replace(".", "_"): value for name, value in SESSIONS.items()}
    listen = ["--listen", f"127.0.0.1:{port}", "--data", str(tmp_path)]
    running = kohort_to_kill(*listen, **settings)
    broker = running.__enter__()

    def start_again() -> None:
        nonlocal running
        running = kohort_to_kill(*listen, **settings)
        running.__enter__()

    try:
        yield Mortal(broker.bootstrap, broker.process.kill, start_again)
    finally:
        running.__exit__(None, None, None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_group_continues_unchanged(mortal: Mortal, protocol: str, fresh: str) -> None:
    quick: dict[str, Any] = {"reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}
    group: dict[str, Any] = {"group_id": fresh, "auto_offset_reset": "earliest", **PROTOCOLS[protocol], **quick}
    moved: list[str] = []
    seen: list[bytes | None] = []

    async def consume(consumer: Consumer) -> None:
        def gone(partitions: frozenset[TopicPartition]) -> None:
            moved.extend(map(str, partitions))

        consumer.subscribe([fresh], on_revoked=gone, on_assigned=lambda p: moved.extend(map(str, p)))
        while True:
            seen.extend(record.value for record in await consumer.poll(timeout=0.2))

    async with Admin(bootstrap_servers=mortal.bootstrap) as admin:
        await admin.create_topics([NewTopic(fresh, 4)])
    consumers = [Consumer(bootstrap_servers=mortal.bootstrap, **group) for _ in range(2)]
    consuming = [asyncio.ensure_future(consume(consumer)) for consumer in consumers]
    async with Producer(bootstrap_servers=mortal.bootstrap, **quick) as producer:

        async def produce(numbers: range) -> None:
            for n in numbers:
                await (await producer.send(fresh, b"%d" % n, partition=n % 4))

        try:
            await eventually(lambda: all(len(consumer.assignment) == 2 for consumer in consumers))
            await produce(range(40))
            await eventually(lambda: len(set(seen)) == 40)
            moved.clear()
            before = [consumer.generation for consumer in consumers]
            await asyncio.to_thread(mortal.kill)
            await asyncio.to_thread(mortal.start_again)
            await produce(range(40, 80))
            await eventually(lambda: len(set(seen)) == 80)
            for consumer in consumers:
                await consumer.commit()
            after = [consumer.generation for consumer in consumers]
            assert (after, moved) == (before, [])
        finally:
            for task in consuming:
                task.cancel()
            await asyncio.gather(*consuming, return_exceptions=True)
            for consumer in consumers:
                await consumer.close()
    assert sorted(value or b"" for value in seen) == sorted(b"%d" % n for n in range(80))
