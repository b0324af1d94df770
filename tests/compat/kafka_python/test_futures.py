"""A future runs its callbacks once, however early or late they are added."""

from __future__ import annotations

import threading

import pytest

from kohort.compat.kafka_python.errors import KafkaTimeoutError
from kohort.compat.kafka_python.futures import Future


def test_callbacks_run_before_and_after_the_value() -> None:
    seen: list[object] = []
    future: Future[int] = Future()
    future.add_callback(seen.append).add_errback(lambda _: seen.append("error"))
    assert not future.is_done and not future.succeeded() and not future.failed()
    future.success(5).add_both(lambda word, value: seen.append((word, value)), "late")
    assert seen == [5, ("late", 5)]
    assert future.is_done and future.succeeded() and future.get() == 5


def test_errbacks_run_before_and_after_the_error() -> None:
    seen: list[object] = []
    future: Future[int] = Future()
    future.add_errback(seen.append).add_callback(lambda _: seen.append("value"))
    problem = OSError("no")
    future.failure(problem).add_errback(seen.append)
    assert seen == [problem, problem] and future.failed() and not future.retriable()
    with pytest.raises(OSError, match="no"):
        future.get()


def test_get_waits() -> None:
    future: Future[str] = Future()
    with pytest.raises(KafkaTimeoutError, match=r"0\.01"):
        future.get(timeout=0.01)
    thread = threading.Thread(target=lambda: future.success("done"))
    thread.start()
    assert future.get(timeout=10) == "done"
    thread.join()


def test_a_callback_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    future: Future[int] = Future()
    future.add_callback(lambda value: 1 / 0).add_callback(seen.append).success(1)
    assert seen == [1] and "a callback of a future failed" in caplog.text
