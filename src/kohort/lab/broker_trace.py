"""The broker's side of a trace: the requests of the group and the syncs of the log, as the broker wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered; times are in monotonic nanoseconds."""

    api: int
    client: str
    received: int
    answered: int
    code: int
    epoch: int | None
    """Member epoch in the request, for heartbeats of the consumer protocol: 0 joins, a negative one leaves."""
    asked: frozenset[int] | None
    """Partitions in the request; None if it names none."""
    told: frozenset[int] | None
    """Partitions that the answer assigns, or whose records it has; None if it names none."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the request of a line."""
        named = {name: None if fields[name] is None else frozenset(fields[name]) for name in ("asked", "told")}
        return cls(**{**fields, **named})


@dataclass(frozen=True, slots=True)
class BrokerTrace:
    """What a broker traced, in the order in which it ended."""

    requests: tuple[Request, ...]
    syncs: tuple[tuple[int, int], ...]
    """Begin and end of each sync of the log, in monotonic nanoseconds."""

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]], since: int = 0) -> Self:
        """Return the trace of the lines of a broker that ended since this time."""
        requests, syncs = [], []
        for line in lines:
            if "sync" in line:
                begin, end = line["sync"]
                if end >= since:
                    syncs.append((begin, end))
            elif line["answered"] >= since:
                requests.append(Request.of(line))
        return cls(tuple(requests), tuple(syncs))

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines for `of`."""
        requests = [
            {name: sorted(value) if isinstance(value, frozenset) else value for name, value in asdict(request).items()}
            for request in self.requests
        ]
        return [*requests, *({"sync": list(sync)} for sync in self.syncs)]


def read_trace(path: Path, since: int) -> BrokerTrace:
    """Read the trace that a running broker writes, from a time on."""
    # The last line may be incomplete.
    *whole, _ = path.read_text(encoding="utf-8").split("\n")
    return BrokerTrace.of(map(json.loads, whole), since)
