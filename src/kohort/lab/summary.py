"""Summaries of trials, one for each broker, client and protocol of a scenario."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from kohort.lab.measure import Measures, measure
from kohort.lab.queries import Answered
from kohort.lab.trial import Outcome

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of all repetitions. Times are milliseconds, or None if there was no such event."""

    scenario: str
    """The scenario, or the experiment's label if one scenario runs in several variants."""
    client: str
    protocol: str
    broker: str
    repetitions: int
    dark_p50: float | None
    dark_p99: float | None
    dark_max: float | None
    dark_sum: float
    """Sum over partitions and triggers, as the mean of the repetitions."""
    pause: float
    """Total pause of all members, as the mean of the repetitions."""
    first_p50: float | None
    """Time from a started member's first request to its first partition, median."""
    first_max: float | None
    wall_p50: float | None
    """Time from a trigger until the group has settled, median."""
    wall_max: float | None
    after_join_p50: float | None
    """Time from the last started member's join until the group has settled, without the start of processes."""
    after_join_max: float | None
    unsettled: int
    """Number of triggers after which the group did not settle in time; the other wall figures exclude them."""
    settle_s: float
    """Time limit of each trigger, in seconds."""
    restored: float
    """Changelog records read before new partitions could be processed, as the mean of the repetitions."""
    answered: Answered | None
    """Answers to interactive queries in all repetitions; None without queries."""
    rebalances: float
    """Largest number of assignments that a member received per trigger, as a mean."""
    duplicated: int
    committed_again: int
    """Number of records read again although a commit covered them."""
    skipped: int
    out_of_order: int
    broker_cpu_s: float | None
    """CPU time of the broker, as the mean of the repetitions."""
    busy: float | None
    """Fraction of the machine's CPU time used by all processes, as the mean of the repetitions."""


def summarise(outcomes: Iterable[Outcome]) -> list[Summary]:
    """Return a summary per scenario, client, protocol and broker.

    Scenarios, clients and protocols are in the order of their first appearance.
    """
    order: dict[tuple[str, str, str], int] = {}
    listed = list(outcomes)
    for outcome in listed:
        order.setdefault(_kind(outcome)[:3], len(order))
    listed.sort(key=lambda outcome: (order[_kind(outcome)[:3]], outcome.trial.broker, outcome.trial.repetition))
    return [_summary(list(same)) for _, same in groupby(listed, key=_kind)]


def _kind(outcome: Outcome) -> tuple[str, str, str, str]:
    trial = outcome.trial
    return trial.title, trial.client, trial.protocol, trial.broker


def _summary(outcomes: Sequence[Outcome]) -> Summary:
    measured = [measure(outcome.events, outcome.triggers) for outcome in outcomes]
    dark = sorted(_ms(interval.end - interval.begin) for each in measured for interval in each.dark)
    firsts = sorted(_ms(took) for each in measured for took in each.first_assignments.values())
    walls = list(chain.from_iterable(each.walls for each in measured))
    settled = sorted(_ms(wall) for wall in walls if wall is not None)
    joins = sorted(_ms(took) for each in measured for took in each.after_joins)
    cpu = [outcome.broker_cpu_s for outcome in outcomes if outcome.broker_cpu_s is not None]
    busy = [outcome.busy for outcome in outcomes if outcome.busy is not None]
    return Summary(
        *_kind(outcomes[0]),
        repetitions=len(outcomes),
        dark_p50=_quantile(dark, 0.5),
        dark_p99=_quantile(dark, 0.99),
        dark_max=_quantile(dark, 1.0),
        dark_sum=sum(dark) / len(outcomes),
        pause=sum(map(total_pause_ms, measured)) / len(outcomes),
        first_p50=_quantile(firsts, 0.5),
        first_max=_quantile(firsts, 1.0),
        wall_p50=_quantile(settled, 0.5),
        wall_max=_quantile(settled, 1.0),
        after_join_p50=_quantile(joins, 0.5),
        after_join_max=_quantile(joins, 1.0),
        unsettled=len(walls) - len(settled),
        settle_s=outcomes[0].trial.settle_s,
        restored=statistics.fmean(each.restored for each in measured),
        answered=_answered([outcome.answered for outcome in outcomes if outcome.answered is not None]),
        rebalances=statistics.fmean(chain.from_iterable(each.rebalances for each in measured)),
        duplicated=sum(each.reading.duplicated for each in measured),
        committed_again=sum(each.reading.committed_again for each in measured),
        skipped=sum(each.reading.skipped for each in measured),
        out_of_order=sum(each.reading.out_of_order for each in measured),
        broker_cpu_s=statistics.fmean(cpu) if cpu else None,
        busy=statistics.fmean(busy) if busy else None,
    )


def _answered(found: Sequence[Answered]) -> Answered | None:
    if not found:
        return None
    return Answered(
        fresh=sum(answered.fresh for answered in found),
        stale=sum(answered.stale for answered in found),
        none=sum(answered.none for answered in found),
        longest_ms=max(answered.longest_ms for answered in found),
    )


def total_pause_ms(measured: Measures) -> float:
    """Return the total pause of all members in one trial."""
    return sum(_ms(end - begin) for intervals in measured.pauses.values() for begin, end in intervals)


def _ms(nanoseconds: int) -> float:
    return nanoseconds / _NS_PER_MS


def _quantile(ordered: Sequence[float], part: float) -> float | None:
    """Return the smallest value that at least this part of all values does not exceed."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -(-int(part * 1000) * len(ordered) // 1000) - 1))]
