"""One trial as it runs: a topic with a load, a group of members, and all that they say, in order."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kohort.errors import KohortError
from kohort.lab.events import Event
from kohort.lab.member import Member
from kohort.lab.order import Order
from kohort.lab.process import ServerProcess
from kohort.lab.queries import Queries
from kohort.lab.view import View

_QUIET_S = 0.6
"""Settled is what stays as it is for so long."""
_LEAVE_S = 20.0


class Unsettled(KohortError):
    """The group did not come to rest in time."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Something that the experiment did to the group."""

    at: int
    """Monotonic nanoseconds, just before it was done."""
    what: str
    settled_at: int | None = None
    """When every partition was read by its owner again, shares even; None where it never was."""
    opened: tuple[int, int] | None = None
    """It made new partitions, which nobody reads yet: from this number on, and up to before that."""
    down_until: int | None = None
    """It took the broker away, until then (monotonic ns): nobody reads anything."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Trigger:
        """From JSON, which knows no tuples."""
        return cls(**{**fields, "opened": tuple(fields["opened"]) if fields["opened"] else None})


class Stage:
    """Members by name; `settle` waits until the group is at rest."""

    def __init__(
        self, client: str, order: Order, partitions: int, tick_ms: int, logs: Path, settle_s: float, homes: Path | None
    ) -> None:
        """Members keep their state in directories of their own under `homes`; None: nowhere."""
        self.partitions = partitions
        self.members: dict[str, Member] = {}
        self.events: list[Event] = []
        self.triggers: list[Trigger] = []
        self.weights: dict[str, float] = {}
        """What share of the partitions a member is to have, where it is not 1 as the others'."""
        self._client = client
        self._order = order
        self._tick_ms = tick_ms
        self._logs = logs
        self._homes = homes
        self._lived: dict[str, Path] = {}
        """By member: the directory that is or was its own."""
        self._settle_s = settle_s
        self._numbers = itertools.count(1)
        self._heard = threading.Condition()
        self._view = View()
        self._load: ServerProcess | None = None
        self.queries = Queries(partitions) if order.board else None
        """Asked all the time, where members answer questions."""

    # -- the load

    def begin_load(self) -> None:
        """Returns when the first records are written."""
        command = [sys.executable, "-m", "kohort.lab.load", self._order.bootstrap, self._order.topic]
        self._load = ServerProcess([*command, str(self._tick_ms)])
        self._load.wait_for("^writing", timeout=30.0)

    def end_load(self) -> None:
        """Nothing more is written."""
        if self._load is not None:
            self._load.stop()
            self._load = None

    # -- what is done to the group

    def start(self, count: int = 1, prefix: str = "m") -> list[str]:
        """So many more members; their names, which are their client ids."""
        names = [f"{prefix}{next(self._numbers)}" for _ in range(count)]
        for name in names:
            self._start(name, self._homes / name if self._homes else None)
        return names

    def start_again(self, ended: str) -> str:
        """Another member where that one was: with its directory, as an instance that comes back; its name."""
        name = f"m{next(self._numbers)}"
        self._start(name, self._lived.get(ended))
        return name

    def _start(self, name: str, home: Path | None) -> None:
        if home is not None:
            self._lived[name] = home
        order = replace(self._order, name=name, state=str(home or ""))
        self.members[name] = Member(self._client, order, self._logs / f"{name}.log", self._hear)

    def stop(self, name: str) -> None:
        """It leaves, and ends."""
        member = self.members.pop(name)
        member.leave()
        member.gone(_LEAVE_S)

    def kill(self, name: str) -> None:
        """It ends without a goodbye."""
        member = self.members.pop(name)
        member.kill()
        member.gone(_LEAVE_S)

    def trigger(self, what: str) -> None:
        """Note that what follows is done now."""
        self.triggers.append(Trigger(time.monotonic_ns(), what))

    def opened(self, total: int) -> None:
        """The last trigger made new partitions: there are so many now."""
        self.triggers[-1] = replace(self.triggers[-1], opened=(self.partitions, total))
        self.partitions = total
        if self._load is not None:
            os.kill(self._load.pid, signal.SIGUSR1)

    def broker_back(self) -> None:
        """The broker that the last trigger took away answers again."""
        self.triggers[-1] = replace(self.triggers[-1], down_until=time.monotonic_ns())
        with self._heard:
            self._view.unread_all()

    def spread_heartbeats(self) -> None:
        """Make the members' heartbeats as far apart as they are after hours of quiet; a rebalance put them in step.

        A classic member that is held still over its next heartbeat sends it when it may go on.
        """
        interval_s = self._order.heartbeat_ms / 1000
        members = list(self.members.values())
        for member in members:
            member.pause()
        time.sleep(interval_s)
        for member in members:
            time.sleep(interval_s / len(members))
            member.resume()
        time.sleep(interval_s)

    def settle(self) -> None:
        """Wait until every member has its share and reads all of it; the last trigger's end. Raises Unsettled."""
        try:
            at = self._wait_until_settled()
        except Unsettled:
            if not self.triggers:
                raise
            return  # the trigger keeps None, which the table tells
        if self.triggers and self.triggers[-1].settled_at is None:
            self.triggers[-1] = replace(self.triggers[-1], settled_at=at)

    def _wait_until_settled(self) -> int:
        deadline = time.monotonic() + self._settle_s
        with self._heard:
            while True:
                since = self._view.settled_since(self._shares(), self.partitions)
                now = time.monotonic()
                if since is not None and now - since / 1e9 >= _QUIET_S:
                    return since
                if now >= deadline:
                    raise Unsettled(f"not settled within {self._settle_s:.0f} s: {self._view.owned(self.members)}")
                self._check_alive()
                wait = _QUIET_S if since is None else _QUIET_S - (now - since / 1e9)
                self._heard.wait(max(0.01, min(wait, deadline - now)))

    def _shares(self) -> dict[str, float]:
        return {name: self.weights.get(name, 1.0) for name in self.members}

    def _check_alive(self) -> None:
        for member in self.members.values():
            if member.ended:
                raise KohortError(f"{member.name} ended by itself.\n{member.last_words()}")

    def owned(self, name: str) -> frozenset[int]:
        """What that member has now, as far as it has said."""
        with self._heard:
            return self._view.owned([name])[name]

    def _hear(self, event: Event) -> None:
        with self._heard:
            self.events.append(event)
            self._view.hear(event)
            if self.queries is not None:
                self.queries.hear(event)
            self._heard.notify_all()

    # -- the end

    def close(self) -> None:
        """End the load and every member that is left."""
        if self.queries is not None:
            self.queries.close()
        self.end_load()
        for member in self.members.values():
            member.kill()
        for member in self.members.values():
            member.gone(_LEAVE_S)
        self.members.clear()
