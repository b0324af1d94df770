"""Heartbeats that are held do not become more: what a member sends in a quiet group."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kohort import Consumer
from kohort.broker import Broker, BrokerOptions
from kohort.broker.net.connection import ClientConnection

HEARTBEATS = {12, 68}
"""The keys of both protocols' heartbeats."""
INTERVAL_MS = 250
SECONDS = 3.0

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
}


class CountingBroker(Broker):
    """Production's broker, which counts its requests."""

    def __init__(self, options: BrokerOptions) -> None:
        super().__init__(options)
        self.requests: Counter[int] = Counter()

    def new_dispatch(self) -> Callable[[ClientConnection, bytes], None]:
        dispatch = super().new_dispatch()

        def counted(connection: ClientConnection, frame: bytes) -> None:
            self.requests[int.from_bytes(frame[:2], "big")] += 1
            dispatch(connection, frame)

        return counted


async def heartbeats(protocol: str, hold_ms: str, more: dict[str, str]) -> int:
    """How many a member sends that has what it wants, and reads nothing."""
    settings = {**SETTINGS, "group.heartbeat.hold.ms": hold_ms}
    broker = CountingBroker(BrokerOptions(port=0, settings=settings))
    async with broker:
        broker.topics.create("orders", 2)
        options: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{broker.port}", "group_protocol": protocol, **more}
        if protocol == "classic":
            options |= {"heartbeat_interval_ms": INTERVAL_MS, "session_timeout_ms": 6_000}
        async with Consumer("orders", group_id="g", **options) as consumer:
            while not consumer.assignment:
                await consumer.poll(timeout=0.05)
            await consumer.poll(timeout=1.0)  # it has acknowledged what it has
            before = broker.requests.copy()
            async with asyncio.timeout(SECONDS + 30):
                await consumer.poll(timeout=SECONDS)
            return sum((broker.requests - before)[key] for key in HEARTBEATS)


@pytest.mark.parametrize(
    ("protocol", "more"), [("classic", {}), ("consumer", {}), ("consumer", {"group_local_assignors": "range"})]
)
async def test_a_member_of_a_quiet_group_sends_no_more_heartbeats_when_they_are_held(
    protocol: str, more: dict[str, str]
) -> None:
    held, answered_at_once = await asyncio.gather(heartbeats(protocol, "9000", more), heartbeats(protocol, "0", more))
    assert 1 <= held <= answered_at_once + 1
