"""Events from the groups to a sender, as they change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kohort.model import Millis
from kohort.security import Secret
from kohort.watch import Live, SourceKind
from kohort.watch.changes import Committed
from kohort.watch.webhooks import WebhookSettings, report_events, sending
from kohort.watch.webhooks.alarms import CLEAR_MS, MOST_ALARMS
from tests.watch.webhooks.groups import NOW, ORDERS, SECOND, rebalance, watched


class Collected:
    def __init__(self) -> None:
        self.documents: list[Mapping[str, Any]] = []
        self.news = asyncio.Event()

    def send(self, document: Mapping[str, Any]) -> None:
        self.documents.append(document)
        self.news.set()

    async def wait(self, number: int) -> None:
        async with asyncio.timeout(30):
            while len(self.documents) < number:
                self.news.clear()
                await self.news.wait()


async def test_events_are_sent_while_the_groups_change() -> None:
    live, sender = Live(), Collected()
    live.source(SourceKind.LOG, "failed", 1, "No broker answers.")
    task = asyncio.create_task(report_events(live, {"blind": 0, "lag": 60}, sender, cluster="c", tick_s=0.01))
    await sender.wait(1)
    live.source(SourceKind.LOG, "following", 2)
    live.apply([Committed("g", 1, ORDERS, 5)], 1)
    live.sampled({ORDERS: 5}, 1)
    live.sampled({ORDERS: 9}, 2)
    await sender.wait(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    names = [document["alerts"][0]["labels"]["alertname"] for document in sender.documents]
    assert names == ["blind", "lag"]


async def test_no_event_of_a_group_begins_while_the_history_is_read() -> None:
    # Read half, the history shows a group that was smaller long ago.
    live, sender = Live(), Collected()
    live.source(SourceKind.LOG, "loading", 1)
    live.apply([Committed("g", 1, ORDERS, 5)], 1)
    live.sampled({ORDERS: 5}, 1)
    live.sampled({ORDERS: 9}, 2)
    task = asyncio.create_task(report_events(live, {"lag": 60}, sender, cluster="c", tick_s=0.01))
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):  # many looks at the groups
                await sender.wait(1)
        live.source(SourceKind.LOG, "following", 2)
        await sender.wait(1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Looks:
    """The clock of `report_events`: it says when there were further looks."""

    def __init__(self) -> None:
        self.now = NOW
        self.number = 0
        self.news = asyncio.Event()

    def __call__(self) -> Millis:
        self.number += 1
        self.news.set()
        return self.now

    async def wait(self, number: int) -> None:
        """Wait until this many further looks have begun, so that one less has ended."""
        wanted = self.number + number
        async with asyncio.timeout(30):
            while self.number < wanted:
                self.news.clear()
                await self.news.wait()


async def test_an_event_does_not_end_while_no_source_follows() -> None:
    live, sender, looks = Live(), Collected(), Looks()
    live.source(SourceKind.LOG, "following", NOW)
    live.apply([Committed("g", NOW, ORDERS, 5)], NOW)
    live.sampled({ORDERS: 5}, NOW - 100 * SECOND)
    live.sampled({ORDERS: 9}, NOW - 99 * SECOND)
    task = asyncio.create_task(report_events(live, {"lag": 60}, sender, cluster="c", tick_s=0.01, clock=looks))
    try:
        await sender.wait(1)
        live.source(SourceKind.LOG, "failed", NOW)
        live.apply([Committed("g", NOW, ORDERS, 9)], NOW)
        looks.now += 10 * CLEAR_MS
        await looks.wait(3)
        assert len(sender.documents) == 1
        live.source(SourceKind.LOG, "following", NOW)
        await looks.wait(3)
        assert len(sender.documents) == 1
        looks.now += CLEAR_MS
        await sender.wait(2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [each["status"] for each in sender.documents] == ["firing", "resolved"]


async def test_a_finding_must_hold_for_its_seconds() -> None:
    live, sender, looks = (
        watched(*(rebalance(n * 20 * SECOND, "ab", "ba") for n in range(9, 0, -1))),
        Collected(),
        Looks(),
    )
    live.source(SourceKind.LOG, "following", NOW)
    task = asyncio.create_task(report_events(live, {"thrashing": 60}, sender, cluster="c", tick_s=0.01, clock=looks))
    try:
        await looks.wait(2)
        looks.now += 59 * SECOND
        await looks.wait(3)
        assert sender.documents == []
        looks.now += SECOND
        await sender.wait(1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_error_of_the_watcher_is_logged_when_it_happens(caplog: pytest.LogCaptureFixture) -> None:
    live, others = Live(sources=None), asyncio.all_tasks()  # type: ignore[arg-type]
    async with sending(live, WebhookSettings(Secret("http://127.0.0.1:9/")), cluster="c"):
        await asyncio.wait(asyncio.all_tasks() - others)
        assert caplog.messages == ["No more events are sent to the webhook, because of an error of this program."]


async def test_events_that_are_too_many_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    live, sender = Live(), Collected()
    live.source(SourceKind.LOG, "following", 1)
    live.apply([Committed(f"g{number}", 1, ORDERS, 5) for number in range(MOST_ALARMS + 2)], 1)
    live.sampled({ORDERS: 5}, 1)
    live.sampled({ORDERS: 9}, 2)
    looks = Looks()
    task = asyncio.create_task(report_events(live, {"lag": 60}, sender, cluster="c", tick_s=0.01, clock=looks))
    await sender.wait(MOST_ALARMS)
    await looks.wait(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert caplog.messages == [
        f"More than {MOST_ALARMS} events hold at a time; further ones are not sent to the webhook until some end."
    ]
