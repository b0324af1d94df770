"""Result of one world."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kohort.errors import ErrorCode
from kohort.sim.plans import Plan
from kohort.sim.violation import Violation


@dataclass(slots=True)
class Outcome:
    """Result of one world."""

    plan: Plan
    violation: Violation | None = None
    trace: int = 0
    """Checksum over every byte that arrived and its time: equal for equal worlds."""
    events: int = 0
    deliveries: int = 0
    group_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)
    """Last messages and events, in the terms of Kafka."""
    acknowledged: int = 0
    records: int = 0
    rebalances: int = 0
    orders: frozenset[str] = frozenset()
    """Pairs of consecutive events in a group, each with the state after it."""
