"""A producer id is asked for until the cluster gives one, or no batch needs it any more: in virtual time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client.options import ProducerOptions
from kohort.client.produce.producer_id import ProducerIdAssignment
from kohort.requests import ProducerId
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.client.virtual_time import in_virtual_time

LOADING, REFUSED = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Numbers:
    """An assignment, and what the cluster answers."""

    def __init__(self, *refusals: ErrorCode | KafkaError, needed: bool = True) -> None:
        self.refusals = list(refusals)
        """What the next requests get instead of an id."""
        self.needed = needed
        self.done = 0
        self.problems: list[ErrorCode] = []
        self.times: list[float] = []
        self.answering = asyncio.Event()
        self.answering.set()
        given: dict[str, Any] = {"bootstrap_servers": "b:9092", "client_id": "me"}
        options = ProducerOptions.read({**given, "retry_backoff_ms": 1_000, "retry_backoff_max_ms": 5_000})
        self.numbers = ProducerIdAssignment(self.answer, options, self._is_done, self._failed)

    async def answer(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.times.append(asyncio.get_running_loop().time())
        await self.answering.wait()
        match self.refusals.pop(0) if self.refusals else None:
            case KafkaError() as problem:
                raise problem
            case ErrorCode() as code:
                return InitProducerIdResponse(error_code=code)
        return InitProducerIdResponse(producer_id=len(self.times), producer_epoch=3)

    def _is_done(self) -> None:
        self.done += 1

    def _failed(self, problem: KafkaError) -> bool:
        self.problems.append(problem.code)
        return self.needed

    async def ask(self) -> ProducerId | None:
        self.numbers.ask()
        await asyncio.sleep(1_000)
        return self.numbers.current


def test_an_id_is_asked_for_once_and_another_one_when_it_is_discarded() -> None:
    async def main() -> None:
        here = Numbers()
        here.numbers.ask()
        first = ProducerId(1, 3)
        assert await here.ask() == first
        assert (here.done, len(here.times), here.problems) == (1, 1, [])
        here.numbers.discard(ProducerId(7, 3))
        assert here.numbers.current == first  # a batch with an earlier id was returned
        here.numbers.discard(first)
        assert here.numbers.current is None
        assert await here.ask() == ProducerId(2, 3)
        await here.numbers.close()

    in_virtual_time(main)


def test_an_error_is_logged_once_and_the_id_is_asked_for_again_after_pauses_that_double(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        here = Numbers(*[LOADING] * 3, KafkaError(LOADING))
        assert await here.ask() == ProducerId(5, 3)
        assert (here.problems, here.done) == ([LOADING] * 4, 1)
        pauses = [after - before for before, after in zip(here.times, here.times[1:], strict=False)]
        for pause, expected in zip(pauses, (1, 2, 4, 5), strict=True):
            assert 0.79 * expected < pause < 1.21 * expected

    caplog.set_level(logging.WARNING)
    in_virtual_time(main)
    began, ended = [record.getMessage() for record in caplog.records]
    assert began.startswith("no producer id: client=me: ")
    assert ended.startswith("a producer id was given out after ") and ended.endswith(" s: client=me")


@pytest.mark.parametrize(("code", "needed"), [(LOADING, False), (REFUSED, True)])
def test_it_ends_when_no_batch_needs_an_id_or_the_error_is_final(code: ErrorCode, needed: bool) -> None:
    async def main() -> None:
        here = Numbers(code, needed=needed)
        assert await here.ask() is None
        assert (here.problems, here.done, len(here.times)) == ([code], 1, 1)
        assert await here.ask() == ProducerId(2, 3)

    in_virtual_time(main)


def test_closing_ends_the_request() -> None:
    async def main() -> None:
        here = Numbers()
        await here.numbers.close()  # nothing to end
        here.answering.clear()
        here.numbers.ask()
        await asyncio.sleep(1)
        (task,) = [task for task in asyncio.all_tasks() if task.get_name() == "kohort-producer-id"]
        await here.numbers.close()
        assert task.cancelled() and not here.done

    in_virtual_time(main)
