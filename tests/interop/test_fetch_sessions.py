"""Fetch sessions (KIP-227) with the clients that people use: those that ask for them, and those that do not."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.broker.fetch.sessions import FetchSession, FetchSessions
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.messages.fetch import FetchRequest
from tests.interop.clients import OF_EACH_CLIENT, Client, Confluent
from tests.interop.mixed.kinds import KINDS, Kind, Place
from tests.interop.mixed.needs import need

pytestmark = pytest.mark.interop

ASK_FOR_SESSIONS = {"java", "kafka-python", "kohort", "kohort-command"}
OF_OTHER_LANGUAGES = {"franz-go": True, "kafkajs": False}
"""And whether they ask for sessions."""
ROUNDS = 5
VALUES = [f"value {number}" for number in range(ROUNDS)]


@pytest.mark.parametrize("client", OF_EACH_CLIENT)
async def test_a_client_that_waits_for_records_again_and_again_gets_them_all(
    client: Client, fresh: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if client.name == "java":
        request.getfixturevalue("kafka_tools")
    resumed = _what_is_resumed(monkeypatch)
    async with Broker(BrokerOptions(port=0, settings={"group.initial.rebalance.delay.ms": "0"})) as broker:
        bootstrap = f"127.0.0.1:{broker.port}"
        broker.topics.create(fresh, 3)
        reading = asyncio.create_task(asyncio.to_thread(client.consume, bootstrap, f"{fresh}-group", fresh, ROUNDS))
        await _feed(broker, client, fresh, reading)
        assert await reading == VALUES
    assert all(resumed)
    assert bool(resumed) == (client.name in ASK_FOR_SESSIONS)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in OF_OTHER_LANGUAGES], ids=lambda kind: kind.name
)
async def test_a_client_in_another_language_reads_through_a_fetch_session(
    kind: Kind, fresh: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(need, kind, request)
    resumed = _what_is_resumed(monkeypatch)
    # kafkajs fetches nothing while a heartbeat is unanswered: held ones delay each round by nine seconds.
    settings = {"group.initial.rebalance.delay.ms": "0", "group.heartbeat.hold.ms": "0"}
    async with Broker(BrokerOptions(port=0, settings=settings)) as broker:
        broker.topics.create(fresh, 3)
        place = Place(f"127.0.0.1:{broker.port}", f"{fresh}-group", fresh, "range", "reader", 30_000)
        member = await asyncio.create_subprocess_exec(
            *kind.command(place, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            reading = asyncio.create_task(_read(member, ROUNDS))
            await _feed(broker, Confluent(), fresh, reading)
            async with asyncio.timeout(60):
                assert await reading == VALUES
        finally:
            member.kill()
            await member.wait()
    assert all(resumed)
    assert bool(resumed) == OF_OTHER_LANGUAGES[kind.name]


def _what_is_resumed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Filled with whether the broker still had the session, for each fetch that names one."""
    resumed: list[bool] = []
    resume = FetchSessions.resume

    def noted(self: FetchSessions, asked: FetchRequest, version: int, now: Millis) -> FetchSession | ErrorCode:
        found = resume(self, asked, version, now)
        resumed.append(not isinstance(found, ErrorCode))
        return found

    monkeypatch.setattr(FetchSessions, "resume", noted)
    return resumed


async def _feed(broker: Broker, client: Client, topic: str, reading: asyncio.Task[list[str]]) -> None:
    """Write one value after the other, each when the reader waits for more."""
    for number, value in enumerate(VALUES):
        await _until_it_waits(broker, reading)
        await asyncio.to_thread(client.produce, f"127.0.0.1:{broker.port}", topic, [value], "none")
        log_ends = [broker.partition(topic, partition) for partition in range(3)]
        assert sum(log.stable_offset for log in log_ends if log is not None) == number + 1


async def _read(member: asyncio.subprocess.Process, count: int) -> list[str]:
    """Return the values that it has read, once there are that many."""
    values: list[str] = []
    assert member.stdout is not None
    async for line in member.stdout:
        said = json.loads(line)
        if said["name"] == "record_data":
            values.append(said["value"])
        if len(values) == count:
            break
    return values


async def _until_it_waits(broker: Broker, reading: asyncio.Task[list[str]]) -> None:
    async with asyncio.timeout(60):
        while not broker.waiting_fetches.count and not reading.done():  # noqa: ASYNC110  a broker tells nobody
            await asyncio.sleep(0.02)
