"""Database of a world whose brokers keep their log as with PostgreSQL: leases, epochs, transactions.

An append and the check of its author are one transaction: either all of it is committed or nothing.
If a connection breaks, its result is unknown, and production's `Writer` determines it. A broker
renews its lease with production's `Lease` and answers no requests without one. Others may open the
log once the lease has expired by the database's clock. A broker that resumes after that exits.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from random import Random
from typing import ClassVar

from kohort.broker import Broker
from kohort.broker.cluster import Lease
from kohort.log import MemoryStore, Pending, PendingAppends
from kohort.log.cluster import Fenced, ResultUnknown, Writer
from kohort.sim.environment.disk import Disk, DiskStore
from kohort.sim.environment.loop import SleepRequest
from kohort.sim.violation import Violation

LEASE_MS = 3_000
_LIKELY_IN = 0.5
"""Probability that an append whose response is lost was committed."""


class Database(Disk):
    """Durable state; `failure` simulates a network that breaks every connection."""

    is_exclusive: ClassVar[bool] = False

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self.now = now
        """Clock of the database, in seconds."""
        self.lease_until = 0.0
        """Expiry of the lease of the last broker that opened the log."""
        self.last_append = 0
        """Number of the owner's last append."""
        self.lost_answers = 0
        """Number of committed appends whose response was lost."""

    def open(self, rng: Random, node_id: int, clock: Callable[[], float]) -> DatabaseStore:
        return DatabaseStore(self, rng)

    @property
    def has_lapsed(self) -> bool:
        return self.is_free

    @property
    def is_free(self) -> bool:
        return self.failure is None and self.now() >= self.lease_until

    def left(self) -> None:
        self.lease_until = 0.0


class DatabaseStore(DiskStore):
    """Log store of one process."""

    disk: Database

    def __init__(self, disk: Database, rng: Random) -> None:
        super().__init__(disk, rng)
        disk.last_append = 0
        self._renew()
        self._writer = Writer(self)
        self._writing: Iterator[float] | None = None
        self.cut_off = False
        """Whether this broker is disconnected from the database."""
        self._is_in = False
        """Whether the append in progress is durable."""

    # The lease

    async def keep(self, broker: Broker, ends: Callable[[], None]) -> None:
        """Renew the lease, as the keeper's thread does; call `ends` if another broker leads."""
        loop = asyncio.get_running_loop()
        lease = Lease(LEASE_MS)
        lease.renewed(loop.time())

        def fenced() -> bool:
            found = lease.fenced(loop.time())
            if not found and not self._is_owner:
                raise Violation(
                    "S9", f"epoch {self.epoch} opened the log, then epoch {self.disk.epoch}, and both answer requests"
                )
            return found

        broker.fenced = fenced
        self._writer.give_up = lambda: broker.stopping and lease.fenced(loop.time())
        while True:
            await asyncio.sleep(lease.beat_s)
            sent_at = loop.time()
            if not self._reaches_it:
                continue
            if self.epoch != self.disk.epoch:
                lease.lost()
                ends()
                return
            self._renew()
            lease.renewed(sent_at)

    def _renew(self) -> None:
        self.disk.lease_until = self.disk.now() + LEASE_MS / 1000

    # Appends

    def take(self) -> PendingAppends | None:
        self._is_in = False
        return super().take()

    def sync(self, pending: Pending) -> None:
        assert isinstance(pending, PendingAppends)
        if self._writing is None:
            self._writing = self._writer.write(pending)
        for seconds in self._writing:
            raise SleepRequest(seconds)
        self._under_way = self._writing = None

    def fail(self, pending: Pending, error: OSError) -> None:
        """Fail an append; no partition stops, because the next append may succeed."""
        MemoryStore.fail(self, pending, error)
        self._under_way = self._writing = None

    def append(self, appends: PendingAppends, number: int) -> None:
        if not self._reaches_it:
            if self._rng.random() < _LIKELY_IN and self._is_owner:
                self.disk.lost_answers += 1
                self._insert(appends, number)
            raise ResultUnknown(errno.ECONNRESET, "the simulated connection broke")
        if not self._is_owner:
            raise Fenced(errno.ESTALE, "this broker was declared dead")
        self._insert(appends, number)

    def last_append(self) -> int | None:
        if not self._reaches_it:
            raise ResultUnknown(errno.ECONNREFUSED, "the simulated database is away")
        return self.disk.last_append if self._is_owner else None

    def make_time_partitions(self, appends: PendingAppends) -> None:
        raise AssertionError("there are no time_partitions here")

    def power_lost(self) -> None:
        """Simulate the end of the process: the append in progress is committed or not."""
        taken = self._under_way
        if taken is not None and self._is_owner and not self._is_in and self._rng.random() < _LIKELY_IN:
            self._insert(taken, self.disk.last_append + 1)

    @property
    def _reaches_it(self) -> bool:
        return self.disk.failure is None and not self.cut_off

    @property
    def _is_owner(self) -> bool:
        return self.epoch == self.disk.epoch

    def _insert(self, appends: PendingAppends, number: int) -> None:
        for partition, data in self._writes(appends):
            self.disk.logs.setdefault(partition, bytearray()).extend(data)
            self.disk.written(partition, data, self.epoch)
        self.disk.last_append = number
        self._is_in = True
