"""Rebalance callbacks run inside poll, one at a time and completely; the member always learns that they ended."""

from __future__ import annotations

import asyncio

import pytest

from kohort import TopicPartition
from kohort.client.consume.callbacks import RebalanceCallbacks
from kohort.member import CallbackKind

HERE = frozenset({TopicPartition("t", 0)})
ASSIGNED, REVOKED = CallbackKind.ASSIGN, CallbackKind.REVOKE


class Running:
    """Callbacks, and what they do."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.problem: Exception | None = None
        self.may_end = asyncio.Event()
        self.inside: list[bool] = []
        self.callbacks = RebalanceCallbacks(self._carry_out, self._done, lambda: self.told.append("news"))

    async def _carry_out(self, kind: CallbackKind, partitions: frozenset[TopicPartition]) -> None:
        assert partitions == HERE
        self.told.append(kind.value)
        self.inside.append(self.callbacks.inside)
        await self.may_end.wait()
        if self.problem is not None:
            raise self.problem

    def _done(self) -> None:
        self.told.append("done")


async def test_a_callback_waits_for_poll_and_poll_for_the_callback() -> None:
    here = Running()
    assert not here.callbacks.waiting
    here.callbacks.begin(ASSIGNED, HERE)
    await asyncio.sleep(0)
    assert (here.told, here.callbacks.waiting) == (["news"], True)
    polling = asyncio.ensure_future(here.callbacks.run_pending())
    for _ in range(3):
        await asyncio.sleep(0)
    assert (here.told, here.callbacks.waiting, polling.done()) == (["news", ASSIGNED.value], True, False)
    assert (here.inside, here.callbacks.inside) == ([True], False)
    here.may_end.set()
    await polling
    assert (here.told, here.callbacks.waiting) == (["news", ASSIGNED.value, "done"], False)
    here.callbacks.raise_error()


async def test_a_poll_that_is_cancelled_leaves_the_callback_to_the_next_one() -> None:
    here = Running()
    here.callbacks.begin(ASSIGNED, HERE)
    polling = asyncio.ensure_future(here.callbacks.run_pending())
    for _ in range(3):
        await asyncio.sleep(0)
    polling.cancel()
    await asyncio.wait([polling])
    assert here.callbacks.waiting
    here.may_end.set()
    await here.callbacks.run_pending()
    assert here.told == ["news", ASSIGNED.value, "done"]


async def test_a_callback_that_begins_while_another_one_ends_runs_in_the_same_poll() -> None:
    here = Running()
    here.may_end.set()
    here.callbacks._done = lambda: None if REVOKED.value in here.told else here.callbacks.begin(REVOKED, HERE)
    here.callbacks.begin(ASSIGNED, HERE)
    await here.callbacks.run_pending()
    assert [event for event in here.told if event != "news"] == [ASSIGNED.value, REVOKED.value]


async def test_while_the_consumer_leaves_callbacks_start_at_once() -> None:
    here = Running()
    here.may_end.set()
    here.callbacks.start_at_once(True)
    here.callbacks.begin(REVOKED, HERE)
    for _ in range(3):
        await asyncio.sleep(0)
    assert here.told == ["news", REVOKED.value, "done"]
    here.callbacks.start_at_once(False)
    here.callbacks.begin(ASSIGNED, HERE)
    await asyncio.sleep(0)
    assert ASSIGNED.value not in here.told
    here.callbacks.start_at_once(True)  # what waited for a poll starts now
    for _ in range(3):
        await asyncio.sleep(0)
    assert here.told[3:] == ["news", ASSIGNED.value, "done"]
    assert not here.callbacks.waiting


async def test_the_error_of_a_callback_is_raised_once_and_the_member_hears_of_its_end() -> None:
    here = Running()
    here.may_end.set()
    first, second = ValueError("first"), ValueError("second")
    for problem in (first, second):
        here.problem = problem
        here.callbacks.begin(ASSIGNED, HERE)
        await here.callbacks.run_pending()
    assert here.told.count("done") == 2
    with pytest.raises(ValueError, match="first"):
        here.callbacks.raise_error()
    here.callbacks.raise_error()


async def test_closing_ends_the_callback_that_runs() -> None:
    here = Running()
    await here.callbacks.close()
    here.callbacks.start_at_once(True)
    here.callbacks.begin(REVOKED, HERE)
    for _ in range(2):
        await asyncio.sleep(0)
    (task,) = [task for task in asyncio.all_tasks() if task.get_name() == f"kohort-{REVOKED.value}"]
    await here.callbacks.close()
    assert task.cancelled() and here.told[-1] == "done"
    here.callbacks.raise_error()


async def test_a_callback_that_waits_for_poll_does_not_start_because_leaving_has_ended() -> None:
    here = Running()
    here.callbacks.begin(ASSIGNED, HERE)
    here.callbacks.start_at_once(False)
    for _ in range(2):
        await asyncio.sleep(0)
    assert here.told == ["news"]


async def test_what_the_loop_calls_outside_of_tasks_is_no_callback() -> None:
    here = Running()
    inside: list[bool] = []
    asyncio.get_running_loop().call_soon(lambda: inside.append(here.callbacks.inside))
    await asyncio.sleep(0)
    assert inside == [False]
