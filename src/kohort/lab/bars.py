"""The experiments that have a figure to reach, and that figure: Java clients, Apache Kafka beside it.

Figures are milliseconds. What Apache Kafka 4.3.1 took is measured in the same run, so a slow machine is slow for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kohort.lab.summary import Summary
from kohort.lab.trial import Trial

Figure = Literal["first_p50", "first_max", "dark_p50", "dark_max", "dark_sum", "pause", "after_join_max", "wall_max"]
MEANING: dict[Figure, str] = {
    "first_p50": "first partition after the first request, median",
    "first_max": "the same, worst",
    "dark_p50": "dark while a partition moves, median",
    "dark_max": "dark, worst",
    "dark_sum": "dark, in sum",
    "pause": "pause of all members, in sum",
    "after_join_max": "from the first request of the last that joins to all settled",
    "wall_max": "from the trigger to all settled",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure of one protocol."""

    protocol: str
    figure: Figure
    most_ms: float | None
    """What Kohort may take; None: it is only told."""

    def of(self, summary: Summary) -> float | None:
        """What was measured. What never came to rest took longer than it had, however quick the rest was."""
        value: float | None = getattr(summary, self.figure)
        return max(value or 0.0, summary.settle_s * 1000) if summary.unsettled else value


@dataclass(frozen=True, slots=True)
class Row:
    """One experiment, in every protocol that has a bar, once on each broker."""

    name: str
    what: str
    trial: Trial
    """But for its broker, protocol and repetition."""
    minutes: float
    """Of one repetition on both brokers, about, on two cores."""
    bars: tuple[Bar, ...]

    def trials(self, brokers: Iterable[str], repetitions: int) -> list[Trial]:
        """Brokers side by side, repetitions outermost. Warm-up is by our assignor, which our broker has to know."""
        if self.trial.is_warm:
            brokers = [broker for broker in brokers if broker != "kafka"]
        brokers, protocols = list(brokers), dict.fromkeys(bar.protocol for bar in self.bars)
        return [
            replace(self.trial, label=self.name, protocol=protocol, broker=broker, repetition=repetition)
            for repetition in range(1, repetitions + 1)
            for protocol in protocols
            for broker in brokers
        ]


@dataclass(frozen=True, slots=True)
class Reached:
    """A bar, and what was measured; None where nothing was."""

    row: Row
    bar: Bar
    kafka_ms: float | None
    kohort_ms: float | None

    @property
    def verdict(self) -> str:
        """Empty where there is no bar, or nothing measured."""
        if self.bar.most_ms is None or self.kohort_ms is None:
            return ""
        return "reached" if self.kohort_ms <= self.bar.most_ms else "missed"


def reached(rows: Sequence[Row], summaries: Iterable[Summary]) -> list[Reached]:
    """Every bar of these rows."""
    found = {(one.scenario, one.protocol, one.broker): one for one in summaries}

    def value(row: Row, bar: Bar, broker: str) -> float | None:
        summary = found.get((row.name, bar.protocol, broker))
        return None if summary is None else bar.of(summary)

    return [Reached(row, bar, value(row, bar, "kafka"), value(row, bar, "kohort")) for row in rows for bar in row.bars]


_JAVA = Trial(scenario="bounce", broker="", client="java", protocol="")

ROWS = (
    Row(
        "bounce", "10 restarted one by one, 50 partitions", _JAVA, 6,
        (
            Bar("consumer", "first_p50", 150), Bar("consumer", "first_max", 300),
            Bar("consumer", "dark_p50", 120), Bar("consumer", "dark_sum", 10_000),
            Bar("cooperative", "first_p50", 2_500),
            Bar("cooperative", "dark_p50", 100), Bar("cooperative", "dark_sum", 15_000),
        ),
    ),
    Row(
        "bounce-gap", "the same, 5 s between stop and start, commits only of what is given up",
        replace(_JAVA, gap_ms=5_000, commit_ms=0), 5,
        (Bar("cooperative", "first_p50", 300),),
    ),
    Row(
        "bounce-out-of-step", "the same, heartbeats out of step as after hours of quiet",
        replace(_JAVA, out_of_step=True), 7,
        (Bar("eager", "pause", 6_000), Bar("eager", "dark_sum", 60_000)),
    ),
    Row(
        "bounce-restore", "the same, 20 ms of restoring per partition won", replace(_JAVA, restore_ms=20), 10,
        tuple(Bar(protocol, "pause", None) for protocol in ("eager", "cooperative", "consumer")),
    ),
    Row(
        "bounce-warm", "the same with warm-up and a standby, by our client",
        replace(_JAVA, restore_ms=20, warmup=True, num_standby=1, client="kohort"), 4,
        tuple(Bar(protocol, "pause", 200) for protocol in ("cooperative", "consumer")),
    ),
    Row(
        "takeover", "1 owner of 6 partitions, two join", replace(_JAVA, scenario="takeover", partitions=6), 2,
        (
            Bar("consumer", "after_join_max", 300),
            Bar("consumer", "dark_p50", 150), Bar("cooperative", "dark_p50", 100),
        ),
    ),
    Row(
        "one-joins-20", "1 joins 20 members, 100 partitions",
        replace(_JAVA, scenario="scale-out", members=20, partitions=100), 4,
        (
            Bar("consumer", "after_join_max", 250),
            Bar("consumer", "dark_p50", 120), Bar("cooperative", "dark_p50", 100),
        ),
    ),
    Row(
        "partitions", "10 members, 100 partitions become 1,000",
        replace(_JAVA, scenario="partitions", partitions=100, tick_ms=500, settle_s=330.0), 9,
        (Bar("consumer", "wall_max", 500), Bar("cooperative", "wall_max", 3_000)),
    ),
    Row(
        "crash", "one of 10 is killed, session of 45 s", replace(_JAVA, scenario="crash"), 5,
        (Bar("cooperative", "dark_max", 8_000), Bar("consumer", "dark_max", 6_000)),
    ),
)  # fmt: skip
