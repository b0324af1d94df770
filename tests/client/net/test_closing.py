"""Cleanup runs to its end, whatever becomes of the task that waits for it."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.net import run_to_end


async def test_the_end_of_the_work_is_waited_for() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("work")

    await run_to_end(work())
    assert done == ["work"]


async def test_a_cancelled_caller_finishes_the_work_and_is_cancelled_then() -> None:
    may_end, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        done.set()

    caller = asyncio.ensure_future(run_to_end(work()))
    for _ in range(2):  # once more while it is being cancelled
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
    may_end.set()
    await asyncio.wait([caller])
    assert caller.cancelled() and done.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_to_end(work())


async def test_an_error_of_the_work_precedes_a_cancellation_at_the_same_moment() -> None:
    may_end = asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        raise ZeroDivisionError

    caller = asyncio.ensure_future(run_to_end(work()))
    for _ in range(2):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(ZeroDivisionError):
        await caller
