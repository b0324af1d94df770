"""What came of one world."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kohort.errors import ErrorCode
from kohort.sim.plan import Plan
from kohort.sim.violation import Violation


@dataclass(slots=True)
class Outcome:
    """What came of one world."""

    plan: Plan
    violation: Violation | None = None
    trace: int = 0
    """A sum over every byte that arrived, and when: equal for worlds that were equal."""
    events: int = 0
    deliveries: int = 0
    group_seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)
    """What arrived last, and what happened last, in Kafka's words."""
    acknowledged: int = 0
    records: int = 0
    rebalances: int = 0
