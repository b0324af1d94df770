"""A lasting failure is logged when it begins and when it ends, however long it takes."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from kohort import Consumer, ErrorCode, TopicPartition
from kohort.client.net.failure_log import FailureLog
from kohort.testing import Broker
from tests.client.conftest import eventually
from tests.client.consume.test_consumer import fill, take
from tests.interop.kafka import free_ports
from tests.interop.kohort import kohort_to_kill


class Clock:
    """A time that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(caplog: pytest.LogCaptureFixture, start: str = "") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith(start)]


def test_each_reason_is_logged_once_and_the_end_with_its_time(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    failures = FailureLog(logging.getLogger("test"), clock, "not read", "read again")
    for code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION):
        for _ in range(3):
            failures.failed(["a", "b"], code, "why")
            clock.now += 1.0
    failures.failed(["a", "c"], ErrorCode.NETWORK_EXCEPTION, "why")
    failures.succeeded(["a", "d"])
    failures.succeeded(["a", "d"])
    assert said(caplog) == [
        "not read: a, b: why (NETWORK_EXCEPTION)",
        "not read: a, b: why (NOT_LEADER_OR_FOLLOWER)",
        "not read: c: why (NETWORK_EXCEPTION)",
        "read again after 9.0 s: a",
    ]


def test_a_failure_long_after_the_last_one_is_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    failures = FailureLog(logging.getLogger("test"), clock, "not read", "read again")
    for _ in range(3):
        failures.failed(["a"], ErrorCode.NETWORK_EXCEPTION, "why")
        clock.now += 200.0
    failures.forget(["a"])
    failures.succeeded(["a"])
    assert said(caplog) == ["not read: a: why (NETWORK_EXCEPTION)"] * 3


def test_a_line_names_five_and_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    failures = FailureLog(logging.getLogger("test"), Clock(), "not read", "read again")
    failures.failed([f"t-{number}" for number in range(8)], ErrorCode.NETWORK_EXCEPTION, "why")
    assert said(caplog) == ["not read: t-0, t-1, t-2, t-3, t-4 and 3 more: why (NETWORK_EXCEPTION)"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_broker_that_is_away_costs_a_few_lines_and_not_one_a_second(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    [port] = free_ports(1)
    options = ("--listen", f"127.0.0.1:{port}", "--data", str(tmp_path))
    quick: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40, "reconnect_backoff_max_ms": 60}
    async with Consumer(
        "t",
        bootstrap_servers=f"127.0.0.1:{port}",
        group_id="g",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        request_timeout_ms=500,
        **quick,
    ) as consumer:
        with kohort_to_kill(*options, group_initial_rebalance_delay_ms="0") as broker:
            await fill(broker.bootstrap, "t", 1)
            await take(consumer, 1)
            caplog.clear()
        await consumer.poll(timeout=3.0)
        assert (
            1 <= len(said(caplog, "no coordinator: group=g: ")) <= 2
        )  # the connection broke, then no broker was there
        assert len(said(caplog)) <= 8
        with kohort_to_kill(*options, group_initial_rebalance_delay_ms="0") as broker:
            await fill(broker.bootstrap, "t", 1)
            await take(consumer, 1)
            await eventually(lambda: bool(said(caplog, "the coordinator answers again after ")))
            [line] = said(caplog, "a broker answers again after ")
            assert line.endswith(f" s: bootstrap_servers=127.0.0.1:{port}")
            assert len(said(caplog)) <= 16
            await consumer.close()  # while there is a broker to say goodbye to


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
async def test_a_coordinator_that_cannot_work_is_logged_once_and_auto_commits_that_fail_too(
    code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kohort.client")
    async with Broker(topics={"t": 1}) as broker:
        broker.topic("t").produce("0")
        refusal = broker.fault(keys="OffsetCommit", error=code.name, count=-1)
        quick: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40, "auto_commit_interval_ms": 50}
        async with Consumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            request_timeout_ms=200,
            **quick,
        ) as consumer:
            await take(consumer, 1)
            async with asyncio.timeout(20):
                while refusal.hits < 20 or len(said(caplog, "auto commit failed: group=g: ")) < 1:
                    await consumer.poll(timeout=0.05)
            assert len(said(caplog, "no coordinator: group=g: ")) == 1
            # On a slow machine a request may also time out: that is another reason, and another line.
            assert len([line for line in said(caplog, "auto commit failed: group=g: ") if code.name in line]) == 1
            refusal.remove()
            async with asyncio.timeout(20):
                while not said(caplog, "auto commit works again after "):
                    await consumer.poll(timeout=0.05)
            assert len(said(caplog, "the coordinator answers again after ")) == 1
            assert broker.group("g").committed == {TopicPartition("t", 0): 1}
