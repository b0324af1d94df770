"""Topics of a running broker, and a check that nothing is left running."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kohort import Admin, NewTopic, testing
from tests.interop.broker import Broker

NewTopicName = Callable[..., Awaitable[str]]


@pytest.fixture
async def admin(any_broker: Broker) -> AsyncIterator[Admin]:
    """An admin client of the broker."""
    async with Admin(bootstrap_servers=any_broker.bootstrap) as made:
        yield made


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of a member of either protocol that learns of changes soon and revokes only partitions that move."""
    if request.param == "classic":
        return {
            "partition_assignment_strategy": "cooperative-sticky",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 6_000,
        }
    return {"group_protocol": "consumer"}


_numbers = itertools.count()


@pytest.fixture
def fresh() -> str:
    """A name that no topic and no group of this run has."""
    return f"c{next(_numbers)}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_topic(admin: Admin, fresh: str) -> NewTopicName:
    """Create a topic with that many partitions under a unique name."""
    made = 0

    async def create(partitions: int = 1, **configs: str) -> str:
        nonlocal made
        made += 1
        name = f"{fresh}-{made}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        await admin.create_topics([NewTopic(name, partitions, 1, settings)])
        return name

    return create


@pytest.fixture(autouse=True)
async def nothing_is_left_running() -> AsyncIterator[None]:
    """Every task that a client started is gone when the client is closed."""
    before = asyncio.all_tasks()
    yield
    left = [repr(task) for task in asyncio.all_tasks() - before if task.get_name().startswith("kohort")]
    assert left == []


@asynccontextmanager
async def broker_with(records: int, partitions: int = 1) -> AsyncIterator[testing.Broker]:
    """A broker with the topic t."""
    async with testing.Broker(topics={"t": partitions}) as broker:
        broker.topic("t").produce(*map(str, range(records)))
        yield broker


async def eventually(condition: Callable[[], bool], within: float = 20.0) -> None:
    """Wait until it holds; fails when it does not in time."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110  what it looks at has no event
            await asyncio.sleep(0.01)
