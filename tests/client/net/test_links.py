"""Links that are cut at any request, and slow answers: nothing is lost, nothing is processed twice after a commit, and
the log says what happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kohort import Consumer, Producer
from kohort.testing import Broker
from kohort.wire.api import APIS

QUICK: dict[str, Any] = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 5}
QUICK_GROUPS = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.heartbeat.hold.ms": "0",  # so that there are heartbeats to be cut
}
LEAVE_GROUP = 13
REQUEST_TIMEOUT_MS = 4_500
OF_ALL = [0, 1, 2, 3, 8, 9, 10, 18, 22]
OF_PROTOCOL = {"classic": [11, 12, 13, 14], "consumer": [68]}
CASES = [(protocol, key) for protocol, own in OF_PROTOCOL.items() for key in OF_ALL + own]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings=QUICK_GROUPS, topics={"t": 2}) as broker:
        yield broker


async def write_and_count(broker: Broker, protocol: str, over: Callable[[], bool]) -> Counter[bytes | None]:
    """Write 40 records and read them in a group with a commit after every poll; count the reads of each."""
    bootstrap = broker.bootstrap_servers
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False, **QUICK}
    options |= {"heartbeat_interval_ms": 100} if protocol == "classic" else {"group_protocol": "consumer"}
    counted: Counter[bytes | None] = Counter()

    async def write() -> None:
        async with Producer(bootstrap_servers=bootstrap, **QUICK) as producer:
            for n in range(40):
                await (await producer.send("t", b"%d" % n, partition=n % 2))

    async with Consumer("t", bootstrap_servers=bootstrap, **options) as consumer, asyncio.timeout(60):
        writing = asyncio.create_task(write())
        while counted.total() < 40 or not over():
            counted.update(record.value for record in await consumer.poll(timeout=0.05))
            await consumer.commit()
        await writing
    return counted


@pytest.mark.parametrize(("protocol", "key"), CASES, ids=[f"{protocol}-{APIS[key].name}" for protocol, key in CASES])
async def test_a_link_that_is_cut_at_a_request_costs_nothing(
    broker: Broker, protocol: str, key: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.client")
    # A lost response, then a request: a repeated request must not take effect twice, or not at all.
    response = broker.fault(keys=key, close=True, when="after")
    request = broker.fault(keys=key, close=True)
    counted = await write_and_count(broker, protocol, lambda: key == LEAVE_GROUP or request.hits == 1)
    assert response.hits == 1
    assert counted == Counter({b"%d" % n: 1 for n in range(40)})
    assert any("connection lost" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_answers_that_take_a_third_of_the_timeout_are_waited_for(
    broker: Broker, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.client")
    bootstrap = broker.bootstrap_servers
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    options |= {"group_protocol": protocol, "request_timeout_ms": REQUEST_TIMEOUT_MS}
    counted: Counter[bytes | None] = Counter()
    async with (
        Producer(bootstrap_servers=bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer,
        Consumer("t", bootstrap_servers=bootstrap, **options) as consumer,
        asyncio.timeout(90),
    ):
        await (await producer.send("t", b"0", partition=0))
        while not counted:
            counted.update(record.value for record in await consumer.poll(timeout=0.05))
        member, generation = consumer.member_id, consumer.generation
        delay = broker.fault(delay_ms=REQUEST_TIMEOUT_MS / 3, when="after", count=-1)
        sent = [await producer.send("t", b"%d" % n, partition=n % 2) for n in range(1, 20)]
        committing = consumer.commit_nowait()
        while counted.total() < 20:
            counted.update(record.value for record in await consumer.poll(timeout=0.5))
        delay.remove()
        await committing
        await consumer.commit()
        await asyncio.gather(*sent)
        assert (consumer.member_id, consumer.generation) == (member, generation)
    assert set(counted.values()) == {1}
    assert any("slow answer" in record.getMessage() for record in caplog.records)
