"""A failure that repeats itself is logged once, and its end with the time that it took."""

from __future__ import annotations

import logging

import pytest

from kohort.client.net.failure_log import NEVER, FailureLog
from kohort.errors import ErrorCode

_log = logging.getLogger("kohort.tests.failure_log")
_MOVED, _GONE = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Times:
    """A clock that the test moves."""

    now = 100.0


class Case:
    def __init__(self, caplog: pytest.LogCaptureFixture, quiet_s: float | None = None) -> None:
        self.times = Times()
        limit = {} if quiet_s is None else {"quiet_s": quiet_s}
        self.failures = FailureLog(_log, lambda: self.times.now, "no answer", "answered", **limit)
        self._caplog = caplog

    def lines(self) -> list[str]:
        """The lines since the last call."""
        lines = [record.getMessage() for record in self._caplog.records]
        self._caplog.clear()
        return lines


def test_a_reason_is_logged_once_and_a_new_one_once_more(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog)
    case.failures.failed(["a", "b"], _MOVED, "wait")
    assert case.lines() == ["no answer: a, b: wait (NOT_LEADER_OR_FOLLOWER)"]
    case.failures.failed(["a", "b"], _MOVED, "wait")
    assert case.lines() == []
    case.failures.failed(["a", "c"], _MOVED, "wait")
    assert case.lines() == ["no answer: c: wait (NOT_LEADER_OR_FOLLOWER)"]
    case.failures.failed(["a"], _GONE, "create it")
    case.failures.failed(["a"], _MOVED, "wait")  # a reason that returns is no news
    assert case.lines() == ["no answer: a: create it (UNKNOWN_TOPIC_OR_PARTITION)"]


def test_the_end_is_logged_with_the_time_since_the_first_failure(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog)
    case.failures.failed(["a"], _MOVED, "wait")
    case.times.now += 2
    case.failures.failed(["a", "b"], _MOVED, "wait")
    case.times.now += 1
    case.lines()
    case.failures.succeeded(["never failed"])
    assert (case.lines(), bool(case.failures)) == ([], True)
    case.failures.succeeded(["b", "a", "never failed"])
    assert (case.lines(), bool(case.failures)) == (["answered after 3.0 s: a, b"], False)
    case.failures.succeeded(["a"])
    assert case.lines() == []
    case.failures.failed(["a"], _MOVED, "wait")
    assert len(case.lines()) == 1


def test_a_failure_after_a_long_quiet_is_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog, quiet_s=60)
    case.failures.failed(["a"], _MOVED, "wait")
    for _ in range(2):  # the quiet counts from the last failure
        case.times.now += 60
        case.failures.failed(["a"], _MOVED, "wait")
    assert len(case.lines()) == 1
    case.times.now += 61
    case.failures.failed(["a"], _MOVED, "wait")
    assert len(case.lines()) == 1
    case.failures.succeeded(["a"])
    assert case.lines() == ["answered after 0.0 s: a"]


def test_a_log_without_a_limit_waits_for_the_end_however_long(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog, quiet_s=NEVER)
    case.failures.failed(["a"], _MOVED, "wait")
    case.times.now += 1e9
    case.failures.failed(["a"], _MOVED, "wait")
    assert len(case.lines()) == 1


def test_a_forgotten_failure_neither_ends_nor_stays_known(caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog)
    case.failures.failed(["a"], _MOVED, "wait")
    case.failures.forget(["a", "never failed"])
    assert not case.failures
    case.lines()
    case.failures.succeeded(["a"])
    case.failures.failed(["a"], _MOVED, "wait")
    assert case.lines() == ["no answer: a: wait (NOT_LEADER_OR_FOLLOWER)"]


@pytest.mark.parametrize(("count", "named"), [(5, "0, 1, 2, 3, 4"), (6, "0, 1, 2, 3, 4 and 1 more")])
def test_a_line_names_five_and_counts_the_others(count: int, named: str, caplog: pytest.LogCaptureFixture) -> None:
    case = Case(caplog)
    case.failures.failed(range(count), _MOVED, "wait")
    assert case.lines() == [f"no answer: {named}: wait (NOT_LEADER_OR_FOLLOWER)"]
