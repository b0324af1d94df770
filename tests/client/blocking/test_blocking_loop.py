"""The thread with an event loop below the blocking clients, and what all of these have in common."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from kohort.client import ClosedError, ConcurrentUseError, KohortError
from kohort.client.blocking.loop import BlockingClient, LoopThread, _running, call_in_loop

if TYPE_CHECKING:
    from _typeshed import TraceFunction


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    running = LoopThread("test")
    yield running
    running.stop()


async def answer(value: int) -> int:
    return value


class Work:
    """A coroutine that waits until it is cancelled."""

    def __init__(self) -> None:
        self.began, self.cancelled = threading.Event(), threading.Event()

    async def run(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


def alive(thread: LoopThread) -> bool:
    return thread._thread.is_alive()


def test_work_runs_in_the_loop_and_its_result_is_returned(thread: LoopThread) -> None:
    async def where() -> tuple[object, str]:
        return asyncio.get_running_loop(), threading.current_thread().name

    assert thread.call(where) == (thread.loop, "test")
    assert thread.call(lambda: call_in_loop(threading.get_ident)) != threading.get_ident()


def test_a_call_that_takes_too_long_is_cancelled(thread: LoopThread) -> None:
    work = Work()
    with pytest.raises(TimeoutError):
        thread.call(work.run, 0.01)
    assert not work.began.is_set() or work.cancelled.wait(5)
    assert thread.call(lambda: answer(1), 5.0) == 1


def test_an_interrupt_cancels_what_is_waited_for(thread: LoopThread) -> None:
    work = Work()

    def interrupted(future: Future[None]) -> None:
        assert work.began.wait(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thread.wait(thread.submit(work.run), interrupted)
    assert work.cancelled.wait(5)


def test_an_interrupt_at_any_line_of_a_call_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    # A signal handler raises between any two lines. A coroutine that is lost there warns that it was never awaited.
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(told.exc_value))
    methods = (Client.ask, BlockingClient._call, LoopThread.call, LoopThread.submit, LoopThread.wait)
    code = {method.__code__ for method in methods}
    left = 0

    def interrupt(frame: FrameType, event: str, _argument: object) -> TraceFunction | None:
        nonlocal left
        if frame.f_code not in code:
            return None
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return interrupt

    tracing = sys.gettrace()
    with Client() as client:
        for number in itertools.count(1):
            left = number
            sys.settrace(interrupt)
            try:
                client.ask()
            except KeyboardInterrupt:
                pass
            else:
                break
            finally:
                sys.settrace(tracing)
            gc.collect()
            assert unraisable == [], number
        assert client.ask() == 7
    assert number > 10


def test_what_a_thread_waits_for_is_known_while_it_waits(thread: LoopThread) -> None:
    outer, inner = thread.submit(lambda: answer(1)), thread.submit(lambda: answer(2))
    seen: list[object] = [thread.current]

    def look(future: Future[int]) -> int:
        seen.append(thread.current)
        if future is outer:
            assert thread.wait(inner, look) == 2
            seen.append(thread.current)
        return future.result(5)

    assert thread.wait(outer, look) == 1
    assert [*seen, thread.current] == [None, outer, inner, outer, None]


def test_a_call_from_inside_the_loop_is_refused(thread: LoopThread) -> None:
    async def call() -> None:
        thread.call(lambda: answer(1))

    with pytest.raises(KohortError, match="from inside the event loop"):
        thread.call(call, 5.0)
    gc.collect()  # the coroutine was closed: else Python warns, which is an error here


def test_the_end_of_the_loop_cancels_what_threads_wait_for() -> None:
    thread, work = LoopThread("test"), Work()
    future, done = thread.submit(work.run), thread.submit(lambda: answer(1))
    assert work.began.wait(5) and done.result(5) == 1
    thread.stop()
    with pytest.raises(CancelledError):
        future.result(5)
    assert not alive(thread)
    assert thread.loop.is_closed()
    thread.stop()


def test_the_end_of_the_loop_cancels_tasks_also_those_that_have_not_begun() -> None:
    thread, began, ended = LoopThread("test"), threading.Event(), []

    async def wait() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")

    thread.submit(wait)
    assert began.wait(5)

    def stop_and_begin() -> None:
        thread.loop.stop()
        thread.loop.create_task(answer(1))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread.loop.call_soon_threadsafe(stop_and_begin)
        thread._thread.join(5)
        gc.collect()
    assert not alive(thread)
    assert ended == ["cancelled"]
    assert [str(warning.message) for warning in caught] == []


def test_a_loop_stops_after_its_last_work() -> None:
    thread, ran = LoopThread("test"), threading.Event()

    async def last() -> None:
        await asyncio.sleep(0)
        ran.set()

    thread.stop_soon(last)
    thread._thread.join(5)
    assert ran.is_set() and not alive(thread)
    thread.stop_soon(last)  # closed, and not run
    thread.stop_soon()
    gc.collect()


# Common behaviour of all blocking clients


class Client(BlockingClient):
    """The least of a client."""

    def __init__(self) -> None:
        super().__init__("test client")
        self.closed = 0
        self._made = True

    def close(self) -> None:
        self.closed += 1
        if not self._stopped:
            self._stop()

    def _abandon(self) -> None:
        ABANDONED.append(self._thread)
        self._thread.stop_soon()

    def ask(self) -> int:
        self._check_process()
        return self._call(lambda: answer(7), 5.0)


ABANDONED: list[LoopThread] = []


def test_a_client_closes_at_the_end_of_its_block_also_after_an_error() -> None:
    with Client() as client:
        assert client.ask() == 7
    assert client.closed == 1
    with pytest.raises(ZeroDivisionError), Client() as client:
        raise ZeroDivisionError
    assert client.closed == 1
    assert not alive(client._thread)


def test_a_closed_client_refuses_calls() -> None:
    client = Client()
    client.close()
    with pytest.raises(ClosedError, match="the client is closed"):
        client.ask()
    gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.__del__()
    assert not ABANDONED


def test_a_client_that_is_dropped_warns_and_stops_its_loop() -> None:
    client = Client()
    thread = client._thread
    with pytest.warns(ResourceWarning, match="unclosed"):
        del client
        gc.collect()
    assert ABANDONED.pop() is thread
    thread._thread.join(5)
    assert not alive(thread)


def test_a_client_whose_constructor_was_interrupted_stops_its_loop_without_a_warning() -> None:
    client = Client()
    client._made = False
    thread = client._thread
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.__del__()
        client.__del__()
    thread._thread.join(5)
    assert not alive(thread)
    assert not ABANDONED
    Client.__new__(Client).__del__()  # interrupted before it had a thread
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = Client.__new__(Client)
        half._stopped = False
        half.__del__()


def in_child(check: Callable[[], bool]) -> bool:
    """Whether it holds in a process that is forked from this one."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if check() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_the_end_of_the_process_waits_for_no_loop_that_has_ended() -> None:
    thread = LoopThread("test")
    assert thread in _running
    thread.stop()
    assert thread not in _running
    thread.park_soon()  # the end of the process may have found it before
    begun = time.monotonic()
    thread.wait_until_parked(60)
    assert time.monotonic() - begun < 30


def test_the_end_of_a_forked_process_waits_for_no_loop_of_its_parent(thread: LoopThread) -> None:
    assert thread in _running
    assert in_child(lambda: not _running)


def test_a_forked_process_cannot_use_the_client_and_does_not_end_it() -> None:
    def refused(client: Client, use: Callable[[], object]) -> bool:
        try:
            use()
        except ConcurrentUseError as problem:
            return "before the process forked" in str(problem) and "Client" in str(problem)
        return False

    def leaves_the_block(client: Client) -> bool:
        client.__exit__(None, None, None)
        closes_normally = client.closed == 1
        client.__exit__(ValueError, ValueError(), None)
        return closes_normally and client.closed == 1

    with Client() as client:
        assert in_child(lambda: refused(client, client.ask))
        assert in_child(lambda: refused(client, lambda: client._call(lambda: answer(7))))
        assert in_child(lambda: leaves_the_block(client))
        assert client.ask() == 7
    assert client.closed == 1
