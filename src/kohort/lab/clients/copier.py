"""Copies of state that a member does not own (KIP-441), made in a thread with an event loop.

The member that computes an assignment writes its plan to the board, a topic of one partition that
all members read. Each member copies what the newest plan assigns to it, follows the changelog from
then on, and hands a copy over when it wins the partition.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import kohort
from kohort.assignor import Copies, Plan
from kohort.client import ConsumerRecord
from kohort.errors import KohortError
from kohort.lab.clients.counts import Counts, CountStore, checkpoint
from kohort.lab.clients.service import Answer, port_of, serve
from kohort.lab.member_settings import MemberSettings
from kohort.model import TopicPartition

_POLL_S = 0.05


@dataclass(slots=True)
class Copy:
    """Copy of one partition's counts."""

    counts: Counts
    lag: int | None = None
    """Number of records that it lacks; None while unknown."""


class Copier:
    """Copier of one member.

    Any thread may call `copies` and `planned`; the other methods belong to the application's
    thread.
    """

    def __init__(self, settings: MemberSettings, count_store: CountStore, answer: Answer) -> None:
        """Start the thread. Raises KohortError if it fails to start.

        `answer` answers queries to this member. Counts that `count_store` has kept are copies from the
        start.
        """
        self.port = 0
        """Port for queries."""
        self.done = False
        """Whether there are copies to report to the group."""
        self.can_win = False
        """Whether some of these copies are of partitions that move to this member when they are copied."""
        self._settings = settings
        self._count_store = count_store
        self._answer = answer
        self._owned: frozenset[int] = frozenset()
        self._copies: dict[int, Copy] = {}
        self._followed: dict[TopicPartition, Copy] = {}
        """Copies that are being updated, by the changelog's partition."""
        self._wanted: frozenset[int] = frozenset()
        self._moving: frozenset[int] = frozenset()
        """Partitions that move to this member when they are copied."""
        self._told: frozenset[int] = frozenset()
        """Wanted partitions that were caught up at the last report."""
        self._patient_since = 0.0
        """Time of the plan's arrival, or of the last report to the group."""
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._plans: asyncio.Queue[Plan] = asyncio.Queue()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        self._ready.wait()
        if not self.port:
            raise KohortError("The member could not start to copy; the reason is logged above.")

    # -- for the assignor

    def copies(self) -> Copies:
        """Return this member's copies with their lags; owned partitions have a lag of 0."""
        with self._lock:
            lags = {number: copy.lag for number, copy in self._copies.items() if copy.lag is not None}
            lags.update(dict.fromkeys(self._owned, 0))
        return Copies(
            self._settings.name, {TopicPartition(self._settings.topic, number): lag for number, lag in lags.items()}
        )

    def planned(self, plan: Plan) -> None:
        """Publish a plan that this member computed on the board."""
        self._loop.call_soon_threadsafe(self._plans.put_nowait, plan)

    # -- for the application

    def hand_over(self, partitions: Collection[int]) -> dict[int, Copy]:
        """Hand over the copies of newly assigned partitions.

        Copies that were caught up are complete now, with a lag of 0.
        """
        with self._lock:
            near = {number for number in partitions if number in self._copies and self._is_near(self._copies[number])}
        if near and self._settings.changelog:
            asyncio.run_coroutine_threadsafe(self._catch_up(near), self._loop).result()
        with self._lock:
            self._owned |= frozenset(partitions)
            handed = {number: self._copies.pop(number) for number in partitions if number in self._copies}
            for number in near & handed.keys():
                handed[number].lag = 0
        return handed

    def take_back(self, partition: int, counts: Counts) -> None:
        """Keep the counts of a revoked partition as a copy, as far as the changelog has them.

        The copy stays until a plan drops it.
        """
        with self._lock:
            self._owned -= {partition}
            self._copies[partition] = Copy(counts, lag=0)

    def count_of(self, partition: int, key: bytes) -> int | None:
        """Return the count in a copy, which may be stale; None without a copy."""
        with self._lock:
            copy = self._copies.get(partition)
            return None if copy is None or copy.lag is None else copy.counts.get(key) or 0

    def note_announced(self) -> None:
        """Note that the group knows of the copies."""
        with self._lock:
            self.done = False
            self._told = self._near()
            self._patient_since = time.monotonic()

    def close(self) -> None:
        """End the thread and close all copies. Queries are no longer answered."""
        self._loop.call_soon_threadsafe(self._running.cancel)
        self._thread.join()
        self._loop.close()
        for copy in self._copies.values():
            copy.counts.close()

    # -- in the thread

    async def _run(self) -> None:
        self._running = asyncio.ensure_future(self._work())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        finally:
            self._ready.set()  # the constructor must not wait after a failure

    async def _work(self) -> None:
        settings = self._settings
        board = TopicPartition(settings.board, 0)
        async with (
            kohort.Producer(bootstrap_servers=settings.bootstrap, linger_ms=0) as producer,
            kohort.Consumer(
                bootstrap_servers=settings.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=500
            ) as self._changes,
        ):
            self._moved = asyncio.Event()
            self._changes.assign([board])
            end = (await self._changes.end_offsets([board]))[board]
            self._changes.seek(board, max(0, end - 1))
            await self._open_kept()
            server = await serve(self._answer)
            self.port = port_of(server)
            self._ready.set()
            publishing = asyncio.ensure_future(self._publish(producer))
            restoring = asyncio.ensure_future(self._restore()) if not settings.changelog else None
            try:
                while True:
                    self._take(await self._changes.poll(max_records=10_000, timeout=_POLL_S))
                    self._follow()
                    self._look()
            finally:
                server.close()
                for task in (publishing, restoring):
                    if task is not None:
                        task.cancel()

    async def _publish(self, producer: kohort.Producer) -> None:
        while True:
            plan = await self._plans.get()
            told = {"copies": _numbers(plan.copies), "moving": _numbers(plan.moving)}
            await (await producer.send(self._settings.board, json.dumps(told).encode(), partition=0))

    async def _open_kept(self) -> None:
        """Open the kept copies, so that the assignor knows them as soon as this member joins."""
        kept = {
            TopicPartition(self._settings.changelog, number): self._count_store.open(number)
            for number in self._count_store.kept()
        }
        ends = await self._changes.end_offsets(list(kept)) if kept else {}
        for partition, counts in kept.items():
            self._copies[partition.partition] = Copy(
                counts, lag=ends[partition] - (checkpoint(counts, ends[partition]) or 0)
            )

    def _take(self, records: Iterable[ConsumerRecord]) -> None:
        changes = defaultdict[int, dict[bytes, int]](dict)
        ends: dict[int, int] = {}
        for record in records:
            if record.topic == self._settings.board:
                self._take_plan(json.loads(record.value or b"{}"))
            else:
                changes[record.partition][record.key or b""] = int(record.value or b"0")
                ends[record.partition] = record.offset + 1
        with self._lock:
            for copied, copy in self._followed.items():
                if copied.partition in ends and self._copies.get(copied.partition) is copy:
                    copy.counts.take(changes[copied.partition], ends[copied.partition])

    def _take_plan(self, told: dict[str, dict[str, list[int]]]) -> None:
        mine = told.get("copies", {}).get(self._settings.name)
        if mine is None:
            return  # the plan was computed before this member joined
        with self._lock:
            self._patient_since = time.monotonic()
            self._wanted = frozenset(mine)
            self._moving = frozenset(told.get("moving", {}).get(self._settings.name, ()))
            for number in self._copies.keys() - self._wanted:
                self._copies.pop(number).counts.close()
            for number in self._wanted - self._owned - self._copies.keys():
                self._copies[number] = Copy(self._count_store.open(number))

    def _follow(self) -> None:
        """Read the changelog for the present copies, and update the lag of each."""
        if not self._settings.changelog:
            with self._lock:
                for copy in self._copies.values():
                    copy.lag = 0 if copy.counts.position is not None else None
            return
        with self._lock:
            wanted = {TopicPartition(self._settings.changelog, number): copy for number, copy in self._copies.items()}
            begun = {
                partition: copy.counts.position or 0
                for partition, copy in wanted.items()
                if self._is_new(partition, copy)
            }
        if begun or wanted.keys() != self._followed.keys():
            self._changes.assign([TopicPartition(self._settings.board, 0), *wanted])
            for partition, position in begun.items():
                self._changes.seek(partition, position)
            self._followed = wanted
        positions, lags = self._changes.positions(), self._changes.lags()
        with self._lock:
            for partition, copy in wanted.items():
                if self._copies.get(partition.partition) is copy:
                    copy.lag = lags.get(partition, copy.lag)
                    if partition in positions and positions[partition] != copy.counts.position:
                        copy.counts.take({}, positions[partition])
        self._moved.set()

    def _is_new(self, changes: TopicPartition, copy: Copy) -> bool:
        return self._followed.get(changes) is not copy

    async def _restore(self) -> None:
        """Simulate the restoring of one copy after another; used without a changelog."""
        while True:
            with self._lock:
                new = next((copy for copy in self._copies.values() if copy.counts.position is None), None)
            await asyncio.sleep(_POLL_S / 10 if new is None else self._settings.restore_ms / 1000)
            if new is not None:
                new.counts.take({}, 0)
                self._follow()
                self._look()

    async def _catch_up(self, numbers: Collection[int]) -> None:
        """Wait until these partitions' copies contain everything that their last owners wrote."""
        ends = await self._changes.end_offsets([TopicPartition(self._settings.changelog, number) for number in numbers])
        while any(self._is_behind(partition.partition, end) for partition, end in ends.items()):
            self._moved.clear()
            await self._moved.wait()

    def _is_behind(self, partition: int, end: int) -> bool:
        copy = self._copies.get(partition)  # a plan may have dropped it
        return copy is not None and (copy.counts.position or 0) < end

    def _look(self) -> None:
        """Update `done` and `can_win`.

        There is something to report if all moving or all wanted partitions are copied, or some of
        them when the interval is over.
        """
        with self._lock:
            near = self._near()
            news = near - self._told
            complete = (self._moving and self._moving <= near) or near == self._wanted - self._owned
            waited = time.monotonic() >= self._patient_since + self._settings.probing_ms / 1000
            # A report that moved nothing is repeated: the assignor may not have known of the copy in time.
            self.can_win = bool(self._moving & (near if waited else news))
            self.done = bool(news and (complete or waited)) or (self.can_win and waited)

    def _near(self) -> frozenset[int]:
        return frozenset(
            number for number, copy in self._copies.items() if number in self._wanted and self._is_near(copy)
        )

    def _is_near(self, copy: Copy) -> bool:
        return copy.lag is not None and copy.lag <= self._settings.acceptable_lag


def _numbers(partitions: Mapping[str, Iterable[TopicPartition]]) -> dict[str, list[int]]:
    return {name: [partition.partition for partition in some] for name, some in partitions.items()}
