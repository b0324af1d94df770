"""Producers that are not closed: when they are finished, and the message on standard error."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kohort.client.produce import unclosed


class Records:
    """Producer with `lost` records that are never written in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: int = 0, left: int = 3) -> None:
        self.loop = loop
        self.left = left
        self.lost = lost
        self.patience: list[float] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    def unwritten(self) -> int:
        return self.left

    async def finish(self, patience: float) -> int:
        self.patience.append(patience)
        await self.may_end.wait()
        unclosed.unwatch_unclosed(self)
        self.left = 0  # those that are lost have failed by now
        return self.lost


@pytest.fixture(autouse=True)
def only_those_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unclosed, "_open", set())
    monkeypatch.setattr(unclosed, "_inherited", [])


@contextmanager
def loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def idle() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that does not run at the moment."""
    loop = asyncio.new_event_loop()
    yield loop
    if not loop.is_closed():
        loop.close()


def reported_lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.partition(", because")[0] for line in capsys.readouterr().err.splitlines()]


def test_what_is_lost_is_told_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    unclosed.report(0)
    assert reported_lines(capsys) == []
    for lost in (1, 2):
        unclosed.report(lost)
    assert reported_lines(capsys) == ["kohort: 1 record was not written", "kohort: 2 records were not written"]


def test_a_process_without_standard_error_loses_the_number_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    unclosed.report(1)


def test_a_producer_that_is_dropped_after_the_end_of_its_loop_tells_once_what_is_lost(
    idle: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Records(idle)
    unclosed.watch_unclosed(producer)
    idle.close()
    for _ in range(2):
        unclosed.finish_abandoned(producer)
    assert reported_lines(capsys) == ["kohort: 3 records were not written"]
    assert not unclosed._open


def test_a_producer_that_is_dropped_while_its_loop_stands_still_is_left_to_the_end_of_the_process(
    idle: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Records(idle)
    unclosed.watch_unclosed(producer)
    unclosed.finish_abandoned(producer)
    assert (producer.patience, reported_lines(capsys)) == ([], [])
    assert producer in unclosed._open
    unclosed._finish_all()
    assert len(producer.patience) == 1


@pytest.mark.parametrize("calls_back", [False, True])
async def test_a_producer_that_is_dropped_in_its_loop_is_finished_there(
    calls_back: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    producer = Records(asyncio.get_running_loop(), lost=2)
    unclosed.watch_unclosed(producer)
    called: list[int] = []
    unclosed.finish_abandoned(producer, (lambda: called.append(len(producer.patience))) if calls_back else None)
    await asyncio.sleep(0)
    tasks = set(unclosed._tasks)
    assert len(tasks) == 1  # held, so that it is not garbage before it ends
    await asyncio.wait(tasks)
    assert (producer.patience, called) == ([unclosed.FINISH_TIMEOUT_S], [1] if calls_back else [])
    assert reported_lines(capsys) == ["kohort: 2 records were not written"]
    await asyncio.sleep(0)
    assert not unclosed._tasks


async def test_a_producer_that_is_dropped_while_it_is_finished_is_finished_and_counted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    producer = Records(asyncio.get_running_loop(), lost=2)
    producer.may_end.clear()
    first = asyncio.ensure_future(unclosed._finish(producer, 5.0))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(unclosed._finish(producer, 7.0))
    await asyncio.sleep(0)
    assert not second.done()
    producer.may_end.set()
    assert (await first, await second, producer.patience) == (2, 0, [5.0])
    assert await unclosed._finish(producer, 7.0) == 2  # nothing is left of the first


# At the end of the process


def test_at_the_end_each_producer_is_finished_wherever_its_loop_is(
    idle: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = asyncio.new_event_loop()
    closed.close()
    with loop_in_a_thread() as running:
        producers = [Records(idle, lost=1), Records(running, lost=20), Records(closed, left=300), Records(idle)]
        for producer in producers:
            unclosed.watch_unclosed(producer)
        unclosed._finish_all()
    standing, elsewhere, gone, written = producers
    for producer in (standing, elsewhere, written):
        (patience,) = producer.patience
        assert 0 < patience <= unclosed.FINISH_TIMEOUT_S
    assert not gone.patience
    assert reported_lines(capsys) == ["kohort: 321 records were not written"]
    assert not unclosed._open
    unclosed._finish_all()
    assert reported_lines(capsys) == []


def test_the_end_waits_for_all_together_and_then_counts_what_is_left(
    idle: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unclosed, "FINISH_TIMEOUT_S", 0.0)
    with loop_in_a_thread() as running:
        stuck = Records(running, left=7)
        stuck.may_end.clear()
        late = Records(idle, lost=1)
        for producer in (stuck, late):
            unclosed.watch_unclosed(producer)
        unclosed._finish_all()
        assert late.patience == [0.0]
        running.call_soon_threadsafe(stuck.may_end.set)
    assert reported_lines(capsys) == ["kohort: 8 records were not written"]


def test_the_end_waits_a_second_longer_for_a_loop_in_another_thread(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unclosed, "FINISH_TIMEOUT_S", 0.0)
    with loop_in_a_thread() as running:
        slow = Records(running, left=7)
        slow.may_end.clear()
        unclosed.watch_unclosed(slow)
        running.call_soon_threadsafe(running.call_later, 0.05, slow.may_end.set)
        unclosed._finish_all()
    assert reported_lines(capsys) == []


def test_ctrl_c_at_the_end_abandons_the_rest_and_counts_it(
    idle: asyncio.AbstractEventLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Records):
        async def finish(self, patience: float) -> int:
            raise KeyboardInterrupt

    producers = [Interrupted(idle), Records(idle)]
    for producer in producers:
        unclosed.watch_unclosed(producer)
    unclosed._finish_all()
    left = sum(producer.left for producer in producers)
    assert reported_lines(capsys) == [f"kohort: {left} records were not written"]
    assert left >= 3


# Processes


def test_a_forked_process_leaves_the_producers_of_its_parent_alone(idle: asyncio.AbstractEventLoop) -> None:
    producer = Records(idle)
    unclosed.watch_unclosed(producer)
    unclosed._forked()
    assert not unclosed._open
    assert unclosed._inherited == [producer]
    unclosed._finish_all()
    assert not producer.patience


def _child(lost: int) -> None:
    loop = asyncio.new_event_loop()
    unclosed.watch_unclosed(Records(loop, lost=lost))


def test_a_child_of_multiprocessing_finishes_its_producers_at_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    child = multiprocessing.get_context("fork").Process(target=_child, args=(2,))
    child.start()
    child.join()
    assert capfd.readouterr().err.startswith("kohort: 2 records were not written")


def test_a_process_that_does_not_use_multiprocessing_has_nothing_to_end_with(
    idle: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "multiprocessing.process")
    producer = Records(idle)
    unclosed.watch_unclosed(producer)
    assert producer in unclosed._open
