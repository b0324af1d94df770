"""The running group of a trial: a topic with a load, its members, and their events in order."""

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
from kohort.lab.member_settings import MemberSettings
from kohort.lab.process import ServerProcess
from kohort.lab.queries import Queries
from kohort.lab.view import View

_QUIET_S = 0.6
"""Time without a change after which the group counts as settled."""
_LEAVE_S = 20.0


class NotSettled(KohortError):
    """The group did not settle in time."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Action of the experiment on the group."""

    at: int
    """Time just before the action, in monotonic nanoseconds."""
    what: str
    settled_at: int | None = None
    """Time at which every owner read its partitions again, with even shares; None if that never happened."""
    opened: tuple[int, int] | None = None
    """Range of new partitions, which have no reader yet: first number, and last number plus one."""
    down_until: int | None = None
    """End of the broker's outage, in monotonic nanoseconds; until then nothing is read."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Trigger:
        """Return a trigger from JSON, which has no tuples."""
        return cls(**{**fields, "opened": tuple(fields["opened"]) if fields["opened"] else None})


class LabGroup:
    """Group of members by name; `settle` waits until the group has settled."""

    def __init__(
        self,
        client: str,
        settings: MemberSettings,
        partitions: int,
        tick_ms: int,
        logs: Path,
        settle_s: float,
        homes: Path | None,
    ) -> None:
        """Create a group without members.

        Members keep their state in their own directories under `homes`; None means that they have
        none.
        """
        self.partitions = partitions
        self.members: dict[str, Member] = {}
        self.events: list[Event] = []
        self.triggers: list[Trigger] = []
        self.weights: dict[str, float] = {}
        """Relative share of the partitions, for members whose share is not 1."""
        self._client = client
        self._settings = settings
        self._tick_ms = tick_ms
        self._logs = logs
        self._homes = homes
        self._lived: dict[str, Path] = {}
        """State directory, by present or former member."""
        self._settle_s = settle_s
        self._numbers = itertools.count(1)
        self._on_eventd = threading.Condition()
        self._view = View()
        self._load: ServerProcess | None = None
        self.queries = Queries(partitions) if settings.board else None
        """Continual interactive queries, if members answer them."""

    # -- the load

    def begin_load(self) -> None:
        """Start the load; return when the first records are written."""
        command = [sys.executable, "-m", "kohort.lab.load", self._settings.bootstrap, self._settings.topic]
        self._load = ServerProcess([*command, str(self._tick_ms)])
        self._load.wait_for("^writing", timeout=30.0)

    def end_load(self) -> None:
        """Stop the load."""
        if self._load is not None:
            self._load.stop()
            self._load = None

    # -- actions on the group

    def start(self, count: int = 1, prefix: str = "m") -> list[str]:
        """Start `count` more members; return their names, which are their client IDs."""
        names = [f"{prefix}{next(self._numbers)}" for _ in range(count)]
        for name in names:
            self._start(name, self._homes / name if self._homes else None)
        return names

    def start_again(self, ended: str) -> str:
        """Start a member with the directory of an ended one, as an instance that restarts; return its name."""
        name = f"m{next(self._numbers)}"
        self._start(name, self._lived.get(ended))
        return name

    def _start(self, name: str, home: Path | None) -> None:
        if home is not None:
            self._lived[name] = home
        settings = replace(self._settings, name=name, state=str(home or ""))
        self.members[name] = Member(self._client, settings, self._logs / f"{name}.log", self._on_event)

    def stop(self, name: str) -> None:
        """Make the member leave the group and end."""
        member = self.members.pop(name)
        member.leave()
        member.wait_until_ended(_LEAVE_S)

    def kill(self, name: str) -> None:
        """Kill the member, which does not leave the group first."""
        member = self.members.pop(name)
        member.kill()
        member.wait_until_ended(_LEAVE_S)

    def trigger(self, what: str) -> None:
        """Record a trigger, whose action follows now."""
        self.triggers.append(Trigger(time.monotonic_ns(), what))

    def opened(self, total: int) -> None:
        """Record that the last trigger increased the partition count to `total`."""
        self.triggers[-1] = replace(self.triggers[-1], opened=(self.partitions, total))
        self.partitions = total
        if self._load is not None:
            os.kill(self._load.pid, signal.SIGUSR1)

    def broker_back(self) -> None:
        """Record that the broker, which the last trigger stopped, answers again."""
        self.triggers[-1] = replace(self.triggers[-1], down_until=time.monotonic_ns())
        with self._on_eventd:
            self._view.unread_all()

    def spread_heartbeats(self) -> None:
        """Spread the members' heartbeats, which a rebalance synchronised, as hours without rebalances do.

        A classic member that is stopped at the time of its next heartbeat sends it when it
        continues.
        """
        interval_s = self._settings.heartbeat_ms / 1000
        members = list(self.members.values())
        for member in members:
            member.pause()
        time.sleep(interval_s)
        for member in members:
            time.sleep(interval_s / len(members))
            member.resume()
        time.sleep(interval_s)

    def settle(self) -> None:
        """Wait until every member owns its share and reads all of it, and record that as the last trigger's end.

        Raises NotSettled if the group does not settle before the first trigger.
        """
        try:
            at = self._wait_until_settled()
        except NotSettled:
            if not self.triggers:
                raise
            return  # the trigger keeps None, which the table shows
        if self.triggers and self.triggers[-1].settled_at is None:
            self.triggers[-1] = replace(self.triggers[-1], settled_at=at)

    def _wait_until_settled(self) -> int:
        deadline = time.monotonic() + self._settle_s
        with self._on_eventd:
            while True:
                since = self._view.settled_since(self._shares(), self.partitions)
                now = time.monotonic()
                if since is not None and now - since / 1e9 >= _QUIET_S:
                    return since
                if now >= deadline:
                    raise NotSettled(
                        f"The group did not settle within {self._settle_s:.0f} s: {self._view.owned(self.members)}"
                    )
                self._check_alive()
                wait = _QUIET_S if since is None else _QUIET_S - (now - since / 1e9)
                self._on_eventd.wait(max(0.01, min(wait, deadline - now)))

    def _shares(self) -> dict[str, float]:
        return {name: self.weights.get(name, 1.0) for name in self.members}

    def _check_alive(self) -> None:
        for member in self.members.values():
            if member.ended:
                raise KohortError(f"{member.name} ended by itself.\n{member.log_end()}")

    def owned(self, name: str) -> frozenset[int]:
        """Return the member's present partitions, according to its events."""
        with self._on_eventd:
            return self._view.owned([name])[name]

    def _on_event(self, event: Event) -> None:
        with self._on_eventd:
            self.events.append(event)
            self._view.handle(event)
            if self.queries is not None:
                self.queries.handle(event)
            self._on_eventd.notify_all()

    # -- shutdown

    def close(self) -> None:
        """Stop the load and all remaining members."""
        if self.queries is not None:
            self.queries.close()
        self.end_load()
        for member in self.members.values():
            member.kill()
        for member in self.members.values():
            member.wait_until_ended(_LEAVE_S)
        self.members.clear()
