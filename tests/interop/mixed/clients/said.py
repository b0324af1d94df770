"""Output of a member that is written in Python, in the format of Apache Kafka's VerifiableConsumer."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterable
from typing import Any

from tests.interop.mixed.events import value_of

Spot = tuple[str, int]
"""A topic's name and a partition."""


HEARTBEAT_MS = 400
POLL_S = 0.2


def spots(partitions: Iterable[Any]) -> list[Spot]:
    """Of any library's topic partitions."""
    return [(partition.topic, partition.partition) for partition in partitions]


def first(partitions: Iterable[Any]) -> list[Any]:
    """Reason of a pause."""
    return [partition for partition in partitions if partition.partition == 0]


def runs(records: Iterable[tuple[Spot, int]]) -> list[dict[str, Any]]:
    """Return the runs of offsets without a gap, in the order in which they began: a client may go back."""
    found: list[dict[str, Any]] = []
    last: dict[Spot, dict[str, Any]] = {}
    for spot, offset in records:
        run = last.get(spot)
        if run is None or offset != run["maxOffset"] + 1:
            run = {"topic": spot[0], "partition": spot[1], "count": 0, "minOffset": offset}
            last[spot] = run
            found.append(run)
        run["count"] += 1
        run["maxOffset"] = offset
    return found


class Owed:
    """What was read and is not committed yet.

    A cooperative member reads on through a rebalance, in which its commits are refused: it commits again after it, and
    at the latest before it gives the partition up.
    """

    def __init__(self) -> None:
        self.ends: dict[Spot, int] = {}

    def add(self, records: Iterable[tuple[Spot, int]]) -> None:
        """These were read, at their offsets."""
        for spot, offset in records:
            self.ends[spot] = offset + 1

    def forget(self, partitions: Iterable[Spot]) -> None:
        """They are another's now."""
        for spot in partitions:
            self.ends.pop(spot, None)


class Pause:
    """For how long a member leaves partition 0 alone, from when it gets it; not at all for 0 ms."""

    def __init__(self, duration_ms: int) -> None:
        self._duration_s = duration_ms / 1000
        self._until: float | None = None

    def begins(self) -> bool:
        """Whether the member is to pause now."""
        if not self._duration_s:
            return False
        self._until = time.monotonic() + self._duration_s
        return True

    def ends(self) -> bool:
        """Whether the member is to resume now; once."""
        if self._until is None or time.monotonic() < self._until:
            return False
        self._until = None
        return True


class Said:
    """The member's lines, and SIGTERM as `stopping`."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._owned: set[Spot] = set()
        self._left = False
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())

    def assigned(self, partitions: Iterable[Spot]) -> None:
        if self._left:
            return  # aiokafka ends a rebalance before it leaves: no member processes these partitions
        given = set(partitions)
        self._owned |= given
        self._say("partitions_assigned", partitions=self._places(given))

    def revoked(self, partitions: Iterable[Spot]) -> None:
        self._gone("partitions_revoked", set(partitions))

    def leaves(self, *, is_member: bool = True) -> None:
        """It processes nothing any more, whatever its client is still given. One that is no member has lost all."""
        self._left = True
        self._gone("partitions_revoked" if is_member else "partitions_lost", set(self._owned))

    def lost(self, partitions: Iterable[Spot]) -> None:
        self._gone("partitions_lost", set(partitions))

    def read(self, records: Iterable[tuple[Spot, int, bytes | None]]) -> None:
        """Where each is, its offset and value, in the order in which the application got them."""
        given = []
        for (topic, partition), offset, value in records:
            given.append(((topic, partition), offset))
            if value != value_of(partition, offset).encode():
                text = None if value is None else value.decode(errors="replace")
                self._say("record_data", topic=topic, partition=partition, offset=offset, value=text)
        self._say("records_consumed", count=len(given), partitions=runs(given))

    def committed(self, error: Exception | None = None) -> None:
        self._say(
            "offsets_committed",
            success=error is None,
            **({"error": f"{type(error).__name__}: {error}"} if error else {}),
        )

    def no_offset(self) -> None:
        """It has nowhere to begin."""
        self._say("no_offset")

    def _gone(self, name: str, partitions: set[Spot]) -> None:
        gone = self._owned & partitions
        if gone:
            self._owned -= gone
            self._say(name, partitions=self._places(gone))

    def _places(self, partitions: set[Spot]) -> list[dict[str, Any]]:
        return [{"topic": topic, "partition": partition} for topic, partition in sorted(partitions)]

    def _say(self, name: str, **fields: object) -> None:
        print(json.dumps({"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}), flush=True)
