"""Many trials as lines of a table: one for each broker, client and protocol of a scenario."""

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
    """Of all repetitions together; times are milliseconds, None where nothing of the kind happened."""

    scenario: str
    """Or the label of the experiment, where one scenario is played in several ways."""
    client: str
    protocol: str
    broker: str
    repetitions: int
    dark_p50: float | None
    dark_p99: float | None
    dark_max: float | None
    dark_sum: float
    """Mean over the repetitions of the sum over partitions and triggers."""
    pause: float
    """Total pause: mean over the repetitions of the sum over members."""
    first_p50: float | None
    """Of members that were started: until their first partition."""
    first_max: float | None
    wall_p50: float | None
    """From trigger to all at rest."""
    wall_max: float | None
    after_join_p50: float | None
    """The same, from when the last member that the trigger started was about to join: without the processes' start."""
    after_join_max: float | None
    unsettled: int
    """Triggers after which the group did not come to rest in time; they are in no other figure of the wall."""
    settle_s: float
    """How long each had."""
    restored: float
    """Records of the changelog that were read before what was won could be processed: mean over the repetitions."""
    answered: Answered | None
    """How members answered questions for counts, in all repetitions; None where nobody asked."""
    rebalances: float
    """Per trigger: the most assignments that a member was told."""
    duplicated: int
    committed_again: int
    """Of those that were read again: what a commit had said to be done."""
    skipped: int
    out_of_order: int
    broker_cpu_s: float | None
    """Mean over the repetitions."""
    busy: float | None
    """The part of the machine's CPU time that was used meanwhile, by whomever; mean over the repetitions."""


def summarise(outcomes: Iterable[Outcome]) -> list[Summary]:
    """By scenario, client, protocol and broker, in the order in which they first came."""
    order: dict[tuple[str, str, str], int] = {}
    listed = list(outcomes)
    for one in listed:
        order.setdefault(_kind(one)[:3], len(order))
    listed.sort(key=lambda one: (order[_kind(one)[:3]], one.trial.broker, one.trial.repetition))
    return [_summary(list(same)) for _, same in groupby(listed, key=_kind)]


def _kind(outcome: Outcome) -> tuple[str, str, str, str]:
    trial = outcome.trial
    return trial.title, trial.client, trial.protocol, trial.broker


def _summary(outcomes: Sequence[Outcome]) -> Summary:
    measured = [measure(one.events, one.triggers) for one in outcomes]
    dark = sorted(_ms(one.end - one.begin) for each in measured for one in each.dark)
    firsts = sorted(_ms(took) for each in measured for took in each.first_assignments.values())
    walls = list(chain.from_iterable(each.walls for each in measured))
    settled = sorted(_ms(wall) for wall in walls if wall is not None)
    joins = sorted(_ms(took) for each in measured for took in each.after_joins)
    cpu = [one.broker_cpu_s for one in outcomes if one.broker_cpu_s is not None]
    busy = [one.busy for one in outcomes if one.busy is not None]
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
        answered=_answered([one.answered for one in outcomes if one.answered is not None]),
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
        sum(one.fresh for one in found), sum(one.stale for one in found), sum(one.none for one in found),
        max(one.longest_ms for one in found),
    )  # fmt: skip


def total_pause_ms(measured: Measures) -> float:
    """Over all members of one trial."""
    return sum(_ms(end - begin) for intervals in measured.pauses.values() for begin, end in intervals)


def _ms(nanoseconds: int) -> float:
    return nanoseconds / _NS_PER_MS


def _quantile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest value that so large a part of all does not exceed."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -(-int(part * 1000) * len(ordered) // 1000) - 1))]
