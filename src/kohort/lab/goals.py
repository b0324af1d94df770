"""Experiments with target figures: Java clients, with Apache Kafka for comparison.

Figures are milliseconds. Apache Kafka 4.3.1 is measured in the same run, so a slow machine is slow
for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kohort.lab.summary import Summary
from kohort.lab.trial import Trial, is_apache_kafka

Figure = Literal["first_p50", "first_max", "dark_p50", "dark_max", "dark_sum", "pause", "after_join_max", "wall_max"]
MEANING: dict[Figure, str] = {
    "first_p50": "first partition after the first request, median",
    "first_max": "first partition after the first request, longest",
    "dark_p50": "dark while a partition moves, median",
    "dark_max": "dark, longest",
    "dark_sum": "dark, total",
    "pause": "pause of all members, total",
    "after_join_max": "from the first request of the last member that joins until the group has settled",
    "wall_max": "from the trigger until the group has settled",
}


@dataclass(frozen=True, slots=True)
class Goal:
    """Target for one figure of one protocol."""

    protocol: str
    figure: Figure
    most_ms: float | None
    """Maximum for Kohort; None if the figure is only reported."""
    gateway_part: float | None = None
    """Maximum for a gateway before Apache Kafka, as a part of Apache Kafka's own figure."""

    def of(self, summary: Summary) -> float | None:
        """Return the measured value.

        If a trigger did not settle, the value is at least the time limit, however fast the others
        were.
        """
        value: float | None = getattr(summary, self.figure)
        return max(value or 0.0, summary.settle_s * 1000) if summary.unsettled else value


@dataclass(frozen=True, slots=True)
class Row:
    """An experiment that runs in every protocol with a goal, once on each broker."""

    name: str
    what: str
    trial: Trial
    """The trial, except for its broker, protocol and repetition."""
    minutes: float
    """Approximate duration of one repetition on both brokers, on two cores."""
    goals: tuple[Goal, ...]

    def trials(self, brokers: Iterable[str], repetitions: int) -> list[Trial]:
        """Return the row's trials, ordered by repetition, protocol and broker.

        Warm-up trials leave out Apache Kafka, because warm-up uses Kohort's assignor, which the
        broker has to know.
        """
        if self.trial.is_warm:
            brokers = [broker for broker in brokers if not is_apache_kafka(broker)]
        brokers, protocols = list(brokers), dict.fromkeys(goal.protocol for goal in self.goals)
        return [
            replace(self.trial, label=self.name, protocol=protocol, broker=broker, repetition=repetition)
            for repetition in range(1, repetitions + 1)
            for protocol in protocols
            for broker in brokers
        ]


@dataclass(frozen=True, slots=True)
class GoalResult:
    """A goal and the measured values; None where nothing was measured."""

    row: Row
    goal: Goal
    kafka_ms: float | None
    kohort_ms: float | None
    gateway_ms: float | None = None
    """The value of Apache Kafka behind a gateway."""

    @property
    def verdict(self) -> str:
        """Whether the goal was "reached" or "missed"; empty without a maximum or a measured value."""
        if self.goal.most_ms is None or self.kohort_ms is None:
            return ""
        return "reached" if self.kohort_ms <= self.goal.most_ms else "missed"

    @property
    def gateway_verdict(self) -> str:
        """Whether the gateway "reached" or "missed" its part of Apache Kafka's value; empty as for `verdict`."""
        if self.goal.gateway_part is None or self.gateway_ms is None or self.kafka_ms is None:
            return ""
        return "reached" if self.gateway_ms <= self.kafka_ms * self.goal.gateway_part else "missed"


def goal_results(rows: Sequence[Row], summaries: Iterable[Summary]) -> list[GoalResult]:
    """Return every goal of these rows with its measured values."""
    found = {(summary.scenario, summary.protocol, summary.broker): summary for summary in summaries}

    def value(row: Row, goal: Goal, broker: str) -> float | None:
        summary = found.get((row.name, goal.protocol, broker))
        return None if summary is None else goal.of(summary)

    return [
        GoalResult(row, goal, value(row, goal, "kafka"), value(row, goal, "kohort"), value(row, goal, "kafka+gateway"))
        for row in rows
        for goal in row.goals
    ]


_JAVA = Trial(scenario="bounce", broker="", client="java", protocol="")

ROWS = (
    Row(
        "bounce", "10 restarted one by one, 50 partitions", _JAVA, 6,
        (
            Goal("consumer", "first_p50", 150), Goal("consumer", "first_max", 300),
            Goal("consumer", "dark_p50", 120), Goal("consumer", "dark_sum", 8_000, 1 / 5),
            Goal("cooperative", "first_p50", 2_500),
            Goal("cooperative", "dark_p50", 100), Goal("cooperative", "dark_sum", 5_000, 1 / 3),
        ),
    ),
    Row(
        "bounce-gap", "the same, 5 s between stop and start, commits only of what is given up",
        replace(_JAVA, gap_ms=5_000, commit_ms=0), 5,
        (Goal("cooperative", "first_p50", 300),),
    ),
    Row(
        "bounce-out-of-step", "the same, heartbeats out of step as after hours of quiet",
        replace(_JAVA, out_of_step=True), 7,
        (Goal("eager", "pause", 6_000), Goal("eager", "dark_sum", 40_000)),
    ),
    Row(
        "bounce-restore", "the same, 20 ms of restoring per partition won", replace(_JAVA, restore_ms=20), 10,
        tuple(Goal(protocol, "pause", None) for protocol in ("eager", "cooperative", "consumer")),
    ),
    Row(
        "bounce-warm", "the same with warm-up and a standby, by our client",
        replace(_JAVA, restore_ms=20, warmup=True, num_standby=1, client="kohort"), 4,
        tuple(Goal(protocol, "pause", 200) for protocol in ("cooperative", "consumer")),
    ),
    Row(
        "takeover", "1 owner of 6 partitions, two join", replace(_JAVA, scenario="takeover", partitions=6), 2,
        (
            Goal("consumer", "after_join_max", 250),
            Goal("consumer", "dark_p50", 150), Goal("cooperative", "dark_p50", 100),
        ),
    ),
    Row(
        "one-joins-20", "1 joins 20 members, 100 partitions",
        replace(_JAVA, scenario="scale-out", members=20, partitions=100), 4,
        (
            Goal("consumer", "after_join_max", 250),
            Goal("consumer", "dark_p50", 120), Goal("cooperative", "dark_p50", 100),
        ),
    ),
    Row(
        "partitions", "10 members, 100 partitions become 1,000",
        replace(_JAVA, scenario="partitions", partitions=100, tick_ms=500, settle_s=330.0), 9,
        (Goal("consumer", "wall_max", 500), Goal("cooperative", "wall_max", 3_000)),
    ),
    Row(
        "crash", "one of 10 is killed, session of 45 s", replace(_JAVA, scenario="crash"), 5,
        (Goal("cooperative", "dark_max", 2_000), Goal("consumer", "dark_max", 2_000)),
    ),
    Row(
        "leave", "one of 10 leaves", replace(_JAVA, scenario="scale-in"), 2,
        (Goal("consumer", "wall_max", 50), Goal("cooperative", "wall_max", 50)),
    ),
)  # fmt: skip
