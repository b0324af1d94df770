"""Interactive queries during a rebalance: the count of a key, requested continually from the members."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from kohort.lab.events import Event, Gone, Serving

_TIMEOUT_S = 2.0
_EVERY_S = 0.02
_KEYS = 100


@dataclass(frozen=True, slots=True)
class Answered:
    """Number of queries by kind of answer."""

    fresh: int = 0
    """Queries answered by the partition's owner."""
    stale: int = 0
    """Queries answered by a member with a copy, while no owner answered."""
    none: int = 0
    longest_ms: float = 0.0
    """Longest time without an answer for a partition; unanswered queries are repeated in every round."""

    def __str__(self) -> str:
        longest = f", for {self.longest_ms:.0f} ms at most" if self.none else ""
        return f"{self.fresh} queries answered by owners, {self.stale} by copies, {self.none} not answered{longest}"


class Queries:
    """Querying thread, from the first member that serves queries until `close`."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._ports: dict[str, int] = {}
        self._connections: dict[str, tuple[socket.socket, TextIO]] = {}
        self._last: dict[int, str] = {}
        """The member that last answered, by partition."""
        self._counts = {"fresh": 0, "stale": 0, "none": 0}
        self._waiting: dict[int, float] = {}
        """Start of the time without an answer, by unanswered partition."""
        self._longest_s = 0.0
        self._counting = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queries", daemon=True)
        self._thread.start()

    @property
    def answered(self) -> Answered:
        """Answers since `begin`. A partition that is still unanswered counts with its time so far."""
        now = time.monotonic()
        waited = [now - since for since in list(self._waiting.values())]
        return Answered(**self._counts, longest_ms=1000 * max([self._longest_s, *waited]))

    def begin(self) -> None:
        """Start to count answers."""
        self._counting = True

    def handle(self, event: Event) -> None:
        """Update the addresses of the members that serve queries."""
        match event:
            case Serving(member=member, port=port):
                self._ports[member] = port
            case Gone(member=member):
                self._ports.pop(member, None)

    def close(self) -> None:
        """Stop the thread and close the connections."""
        self._stopping.set()
        self._thread.join()
        for member in list(self._connections):
            self._disconnect(member)

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.wait(_EVERY_S):
                return
            partition, key = number % self._partitions, f"key-{number // self._partitions % _KEYS:02d}"
            how = self._ask(partition, key)
            if self._counting:
                self._counts[how] += 1
                if how == "none":
                    self._waiting.setdefault(partition, time.monotonic())
            self._ask_again()

    def _ask_again(self) -> None:
        """Repeat the queries of unanswered partitions, which are already counted."""
        for partition, since in list(self._waiting.items()):
            if self._ask(partition, "key-00") != "none":
                self._longest_s = max(self._longest_s, time.monotonic() - since)
                del self._waiting[partition]

    def _ask(self, partition: int, key: str) -> str:
        """Query the member that answered last and then the others, until the partition's owner answers.

        Return "fresh", "stale" or "none".
        """
        how = "none"
        for member in self._order(partition):
            answer = self._answer(member, partition, key)
            if answer is not None and answer["count"] is not None:
                if not answer["stale"]:
                    self._last[partition] = member
                    return "fresh"
                how = "stale"
        return how

    def _order(self, partition: int) -> Iterator[str]:
        last = self._last.get(partition)
        if last is not None and last in self._ports:
            yield last
        yield from [member for member in list(self._ports) if member != last]

    def _answer(self, member: str, partition: int, key: str) -> dict[str, object] | None:
        try:
            connection, lines = self._connection(member)
            connection.sendall(json.dumps({"partition": partition, "key": key}).encode() + b"\n")
            found: dict[str, object] = json.loads(lines.readline())
        except (OSError, ValueError, KeyError):
            self._disconnect(member)  # it is ending, or has not started to serve
            return None
        return found

    def _disconnect(self, member: str) -> None:
        for connection in reversed(self._connections.pop(member, ())):
            connection.close()

    def _connection(self, member: str) -> tuple[socket.socket, TextIO]:
        if member not in self._connections:
            connection = socket.create_connection(("127.0.0.1", self._ports[member]), timeout=_TIMEOUT_S)
            self._connections[member] = connection, connection.makefile("r")
        return self._connections[member]
