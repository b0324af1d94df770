"""Polls of a consumer, without a broker: when its member learns that the application polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kohort import Cluster, KohortError
from kohort.client.consume.assigned_partitions import AssignedPartitions
from kohort.client.consume.commits import Commits
from kohort.client.consume.group_subscription import GroupSubscription
from kohort.client.consume.poller import Poller
from kohort.client.membership import MemberDriver, member_config
from kohort.client.options import ConsumerOptions
from kohort.member import Event, PollEnded, PollStarted
from tests.client.virtual_time import in_virtual_time


class Driver(MemberDriver):
    """A driver whose member does nothing; `notified` has the events, each with its time in milliseconds."""

    notified: list[tuple[int, Event]]

    def handle(self, event: Event) -> None:
        self.notified.append((round(self._loop.time() * 1000), event))


class Polling:
    """A poller of a group member; `records` are what its next poll returns."""

    def __init__(self, **given: Any) -> None:
        names = {"bootstrap_servers": "b:9092", "group_id": "g", "enable_auto_commit": False, **given}
        options = ConsumerOptions.read(names)
        cluster, self.news = Cluster(options), asyncio.Event()
        partitions = AssignedPartitions(cluster, options, self.news.set)
        commits = Commits(cluster, options, dict)
        self.commits_due = 0
        commits.commit_if_due = self._commit_if_due  # type: ignore[method-assign]
        self.problem: KohortError | None = None
        self.group = GroupSubscription(cluster, options, partitions, commits, self.news.set)
        driver = Driver(cluster, member_config(options), lambda *_: None, lambda: None)
        self.notified = driver.notified = []
        self.group.driver = driver
        self.poller = Poller(options, self.group, commits, self.news, self._raise_problem, self._closed)
        self.records: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._began = round(self._loop.time() * 1000)

    async def _closed(self) -> bool:
        return False

    def _commit_if_due(self) -> None:
        self.commits_due += 1

    def _raise_problem(self) -> None:
        if self.problem is not None:
            raise self.problem

    async def poll(self, timeout: float = 0.0) -> list[str]:  # noqa: ASYNC109
        return await self.poller.poll(lambda: self.records, timeout)

    async def poll_for(self, milliseconds: int) -> None:
        """Poll every millisecond for that time."""
        for _ in range(milliseconds):
            await self.poll()
            await asyncio.sleep(0.001)

    def times(self, kind: type[Event]) -> list[int]:
        """When the member was notified of that, in milliseconds since the beginning."""
        return [at - self._began for at, event in self.notified if isinstance(event, kind)]


def played(steps: Callable[[Polling], Coroutine[Any, Any, None]], **given: Any) -> None:
    async def run() -> None:
        await steps(Polling(**given))

    in_virtual_time(run)


@pytest.mark.parametrize(("max_poll_interval_ms", "interval_ms"), [(300_000, 50), (1_000, 10)])
def test_a_member_is_notified_of_frequent_polls_every_50_ms_or_a_hundredth_of_its_poll_interval(
    max_poll_interval_ms: int, interval_ms: int
) -> None:
    async def steps(polling: Polling) -> None:
        polling.records = ["record"]
        await polling.poll_for(4 * interval_ms)
        expected = [turn * interval_ms for turn in range(4)]
        for kind in (PollStarted, PollEnded):
            assert polling.times(kind) == pytest.approx(expected, abs=4)

    played(steps, max_poll_interval_ms=max_poll_interval_ms)


def test_a_member_is_notified_of_each_poll_that_finds_nothing() -> None:
    async def steps(polling: Polling) -> None:
        await polling.poll_for(10)
        assert len(polling.times(PollStarted)) == len(polling.times(PollEnded)) == 10

    played(steps)


def test_a_poll_that_waits_lasts_until_there_are_records() -> None:
    async def steps(polling: Polling) -> None:
        poll = asyncio.ensure_future(polling.poll(timeout=10.0))
        await asyncio.sleep(3.0)
        assert (polling.times(PollStarted), polling.times(PollEnded)) == ([0], [])
        with pytest.raises(KohortError, match="poll is already running"):
            await polling.poll()
        polling.records = ["record"]
        polling.news.set()
        assert await poll == ["record"]
        assert polling.times(PollEnded) == [3_000]
        polling.records = []
        assert await polling.poll(timeout=10.0) == []
        assert polling.times(PollEnded) == [3_000, 13_000]

    played(steps)


def test_a_member_that_is_to_be_closed_is_notified_at_once() -> None:
    async def steps(polling: Polling) -> None:
        polling.records = ["record"]
        await polling.poll()
        polling.poller.close_requested = True
        await polling.poll()
        assert polling.times(PollStarted) == [0, 0]

    played(steps)


def test_a_consumer_without_a_group_polls_without_a_member() -> None:
    async def steps(polling: Polling) -> None:
        polling.group.driver = None
        polling.records = ["record"]
        assert await polling.poll() == ["record"]
        assert polling.notified == []

    played(steps)


def test_each_poll_raises_errors_and_commits_what_is_due_whether_or_not_it_waits() -> None:
    async def steps(polling: Polling) -> None:
        for records in ([], ["record"], ["record"]):
            polling.records, polling.commits_due = records, 0
            assert await polling.poll() == records
            assert polling.commits_due == 1
        polling.problem = KohortError("gone")
        for _ in range(2):
            with pytest.raises(KohortError, match="gone"):
                await polling.poll()

    played(steps)


def test_a_rebalance_that_waits_for_its_callbacks_is_carried_out_by_a_frequent_poll() -> None:
    async def steps(polling: Polling) -> None:
        class Waiting:
            waiting = False
            carried_out = 0

            async def run_pending(self) -> None:
                self.carried_out += self.waiting
                self.waiting = False

        polling.group.rebalances = waiting = Waiting()  # type: ignore[assignment]
        polling.records = ["record"]
        await polling.poll()
        waiting.waiting = True
        await polling.poll()
        assert waiting.carried_out == 1

    played(steps)


def test_frequent_polls_let_the_other_tasks_run_once_in_a_millisecond() -> None:
    async def steps(polling: Polling) -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        polling.records = ["record"]
        for expected in (1, 1, 1):
            await polling.poll()
            assert turns == expected
        task.cancel()
        await asyncio.sleep(0.002)
        task, turns = asyncio.ensure_future(other()), 0
        await polling.poll()
        assert turns == 1
        task.cancel()

    played(steps)
