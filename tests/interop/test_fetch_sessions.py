"""Fetch sessions (KIP-227) with the clients that people use: those that ask for them, and those that do not."""

from __future__ import annotations

import asyncio

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.fetch_sessions import FetchSession, FetchSessions
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.fetch import FetchRequest
from tests.interop.clients import CLIENTS, Client

pytestmark = pytest.mark.interop

ASK_FOR_SESSIONS = {"java", "kafka-python", "kohort", "kohort-command"}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_client_that_waits_for_records_again_and_again_gets_them_all(
    client: Client, fresh: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client.name == "java":
        request.getfixturevalue("kafka_tools")
    resumed: list[bool] = []
    resume = FetchSessions.resume

    def noted(self: FetchSessions, asked: FetchRequest, version: int, now: Millis) -> FetchSession | ErrorCode:
        found = resume(self, asked, version, now)
        resumed.append(not isinstance(found, ErrorCode))
        return found

    monkeypatch.setattr(FetchSessions, "resume", noted)
    rounds = 5
    async with Broker(BrokerOptions(port=0, settings={"group.initial.rebalance.delay.ms": "0"})) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        broker.topics.create(fresh, 3)
        reading = asyncio.create_task(asyncio.to_thread(client.consume, bootstrap, f"{fresh}-group", fresh, rounds))
        for number in range(rounds):
            await _until_it_waits(broker, reading)
            await asyncio.to_thread(client.produce, bootstrap, fresh, [f"value {number}"], "none")
            log_ends = [broker.partition(fresh, partition) for partition in range(3)]
            assert sum(log.stable_offset for log in log_ends if log is not None) == number + 1
        assert await reading == [f"value {number}" for number in range(rounds)]
    assert all(resumed)
    assert bool(resumed) == (client.name in ASK_FOR_SESSIONS)


async def _until_it_waits(broker: Broker, reading: asyncio.Task[list[str]]) -> None:
    async with asyncio.timeout(60):
        while not broker.parked_fetches.count and not reading.done():  # noqa: ASYNC110  a broker tells nobody
            await asyncio.sleep(0.02)
