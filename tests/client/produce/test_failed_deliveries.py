"""Failed deliveries that the application does not look at: raised by flush, or else logged, and only once."""

from __future__ import annotations

import asyncio
import logging
import weakref

import pytest

from kohort import ErrorCode, KafkaError
from kohort.client import DeliveryFailedError
from kohort.client.produce import failed_deliveries
from kohort.client.produce.failed_deliveries import Failures
from tests.client.conftest import eventually

LARGE = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
LATE = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the first of them")
LATER = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the second of them")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_deliveries, "_LOG_AFTER_S", 0.02)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Number and topic of each line, and what it says of the reason."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert all("not written, and the application did not check the result: topic=" in line for line in lines)
    return [line.replace(" not written, and the application did not check the result: topic=", " ") for line in lines]


async def test_a_seen_failure_is_not_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    failure = failures.add("t", 2, LARGE)
    assert failure.see(0) is LARGE
    assert failure.unseen == 1
    failure.see(0)
    assert failure.unseen == 1
    failure.see(1)
    failures.raise_unseen()
    del failure
    failures.close()
    assert logged(caplog) == []


async def test_flush_raises_what_is_held_and_what_was_dropped_once(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    held, dropped = failures.add("t", 3, LARGE), failures.add("u", 2, LARGE)
    held.see(1)
    del dropped
    with pytest.raises(DeliveryFailedError, match="4 records were not written") as raised:
        failures.raise_unseen()
    assert raised.value.count == 4
    assert held.unseen == 0
    failures.raise_unseen()
    del held
    failures.close()
    assert logged(caplog) == []


async def test_flush_does_not_raise_what_it_raised_before_although_it_is_dropped_later() -> None:
    failures = Failures()
    failures.add("t", 3, LARGE)
    for count in (3, 2):
        with pytest.raises(DeliveryFailedError, match=f"{count} records were not written"):
            failures.raise_unseen()
        failures.add("t", 2, LARGE)
    failures.close()


async def test_failures_that_are_dropped_are_logged_together_by_topic_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = Failures()
    for topic, count, error in (("t", 2, LATE), ("u", 1, LATE), ("t", 3, LATER), ("t", 1, LARGE)):
        failures.add(topic, count, error)
    await asyncio.sleep(0)
    assert logged(caplog) == []  # a moment later, so that failures share a line
    await eventually(lambda: len(logged(caplog)) == 3)
    assert logged(caplog) == [f"5 records were t {LATE}", f"1 record was u {LATE}", f"1 record was t {LARGE}"]
    failures.add("v", 2, LARGE)
    await eventually(lambda: len(logged(caplog)) == 4)
    failures.close()
    assert logged(caplog)[3] == f"2 records were v {LARGE}"


async def test_a_logged_failure_is_still_raised_by_the_next_flush(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    failures.add("t", 2, LARGE)
    await eventually(lambda: len(logged(caplog)) == 1)
    with pytest.raises(DeliveryFailedError, match="2 records"):
        failures.raise_unseen()


async def test_closing_logs_what_was_dropped_at_once_and_later_what_is_dropped_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = Failures()
    held = failures.add("t", 2, LARGE)
    failures.add("u", 1, LARGE)
    failures.close()
    assert logged(caplog) == [f"1 record was u {LARGE}"]
    del held
    assert logged(caplog)[1:] == [f"2 records were t {LARGE}"]


def test_a_failure_that_is_dropped_after_the_end_of_the_loop_is_logged_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> tuple[Failures, object]:
        failures = Failures()
        return failures, failures.add("t", 2, LARGE)

    kept = asyncio.run(main())
    assert logged(caplog) == []
    del kept
    assert logged(caplog) == [f"2 records were t {LARGE}"]


async def test_unseen_failures_are_logged_when_the_process_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_deliveries, "_all", weakref.WeakSet())  # others of this process may still live
    failures = Failures()
    held, seen = failures.add("t", 2, LARGE), failures.add("u", 1, LARGE)
    seen.see(0)
    failed_deliveries._log_all()
    assert logged(caplog) == [f"2 records were t {LARGE}"]
    del held
    failures.close()
    assert len(logged(caplog)) == 1


async def test_failures_after_the_handover_are_reported_by_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    failures = Failures()
    before = failures.add("t", 2, LARGE)
    failures.hand_over()
    assert (logged(caplog), before.unseen) == ([f"2 records were t {LARGE}"], 0)
    failures.add("u", 1, LARGE)
    failures.close()
    assert len(logged(caplog)) == 1
