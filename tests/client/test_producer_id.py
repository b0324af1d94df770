"""A producer id is asked for until the cluster gives one, or nobody needs it any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import Cluster
from kohort.client.options import ProducerOptions, read_options
from kohort.client.produce.producer_id import ProducerIdAssignment
from kohort.requests import ProducerId
from kohort.wire.messages.init_producer_id import InitProducerIdResponse
from tests.client.conftest import eventually
from tests.client.link import Link, linked_broker

INIT_PRODUCER_ID = 22


@dataclass
class Numbers:
    """An assignment at a broker whose answers a test changes."""

    link: Link
    cluster: Cluster
    options: ProducerOptions
    refusals: list[ErrorCode] = field(default_factory=list)
    """What the next answers say instead of an id."""
    done: int = 0
    problems: list[KafkaError] = field(default_factory=list)
    needed: bool = True
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = ProducerIdAssignment(self.cluster, self.options, self._is_done, self._failed)
        self.link.watch[INIT_PRODUCER_ID] = lambda request: self.times.append(asyncio.get_running_loop().time())
        self.link.change[INIT_PRODUCER_ID] = self._answer

    def _is_done(self) -> None:
        self.done += 1

    def _failed(self, problem: KafkaError) -> bool:
        self.problems.append(problem)
        return self.needed

    def _answer(self, answer: InitProducerIdResponse, client: str | None) -> None:
        if self.refusals:
            answer.error_code, answer.producer_id = self.refusals.pop(0), -1

    async def ask(self) -> ProducerId | None:
        before = self.done
        self.numbers.ask()
        await eventually(lambda: self.done > before)
        return self.numbers.current


@asynccontextmanager
async def assignment(**options: Any) -> AsyncIterator[Numbers]:
    async with linked_broker() as (_, link):
        quick = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 1_000, **options}
        given = read_options(ProducerOptions, {"bootstrap_servers": f"127.0.0.1:{link.port}", **quick})
        async with Cluster(given) as cluster:
            here = Numbers(link, cluster, given)
            yield here
            await here.numbers.close()


async def test_an_id_is_asked_for_once_and_another_one_when_it_is_discarded() -> None:
    async with assignment() as here:
        here.numbers.ask()
        first = await here.ask()
        assert first is not None and first.id >= 0 and first.epoch >= 0
        assert (here.done, here.link.asked[INIT_PRODUCER_ID], here.problems) == (1, 1, [])
        here.numbers.discard(ProducerId(first.id + 1, first.epoch))
        assert here.numbers.current == first  # a batch of an earlier id came back
        here.numbers.discard(first)
        assert here.numbers.current is None
        second = await here.ask()
        assert second is not None and second.id != first.id


async def test_an_error_is_logged_once_and_the_id_is_asked_for_again_after_pauses_that_grow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client.produce.producer_id")
    async with assignment(client_id="me") as here:
        here.refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4
        assert await here.ask() is not None
        assert [problem.code for problem in here.problems] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4
        gaps = [after - before for before, after in zip(here.times, here.times[1:], strict=False)]
        assert len(gaps) == 4
        assert all(gap > 0.0079 * 2**n for n, gap in enumerate(gaps))
    began, ended = [record.getMessage() for record in caplog.records if record.name.endswith("producer_id")]
    assert began.startswith("no producer id: client=me: ")
    assert ended.startswith("a producer id was given out after ") and ended.endswith(" s: client=me")


@pytest.mark.parametrize(
    ("code", "needed"),
    [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True)],
)
async def test_it_ends_when_no_batch_needs_an_id_or_the_error_is_final(code: ErrorCode, needed: bool) -> None:
    async with assignment() as here:
        here.needed = needed
        here.refusals = [code]
        assert await here.ask() is None
        assert (len(here.problems), here.done) == (1, 1)
        assert await here.ask() is not None


async def test_a_broker_that_cannot_be_reached_is_an_error_like_others() -> None:
    async with assignment() as here:
        here.needed = False
        here.link.cut_at[INIT_PRODUCER_ID] = [False] * 2
        assert await here.ask() is None
        assert here.problems[0].code is ErrorCode.NETWORK_EXCEPTION


async def test_closing_ends_the_request() -> None:
    async with assignment() as here:
        await here.numbers.close()  # nothing to end
        here.link.held[INIT_PRODUCER_ID] = asyncio.Event()
        here.numbers.ask()
        await eventually(lambda: here.link.asked[INIT_PRODUCER_ID] == 1)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "kohort-producer-id"]
        await here.numbers.close()
        assert task.cancelled()
        assert here.done == 0
