"""Throughput against time: records per second that the group read, over repetitions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kohort.lab.events import Read
from kohort.lab.trial import Outcome

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """Mean and standard deviation of each bin over the repetitions; time counts from the first trigger."""

    bin_s: float
    mean: list[float]
    """Records per second."""
    deviation: list[float]

    @property
    def times(self) -> list[float]:
        """Seconds: the middle of each bin."""
        return [(number + 0.5) * self.bin_s for number in range(len(self.mean))]


def throughput(outcomes: Sequence[Outcome], bin_s: float = 0.5) -> Series:
    """Of trials alike, as far as the shortest of them went."""
    counted = [_counts(one, bin_s) for one in outcomes]
    shortest = min(map(len, counted))
    bins = [[counts[number] / bin_s for counts in counted] for number in range(shortest)]
    return Series(bin_s, [statistics.fmean(one) for one in bins], [statistics.pstdev(one) for one in bins])


def pauses_ms(pauses: Iterable[tuple[int, int]]) -> float:
    """Of one member, in sum."""
    return sum(end - begin for begin, end in pauses) / 1e6


def _counts(outcome: Outcome, bin_s: float) -> list[int]:
    begin = outcome.triggers[0].at
    reads = [event for event in outcome.events if isinstance(event, Read) and event.at >= begin]
    end = max((event.at for event in reads), default=begin)
    # The last bin is not full.
    counts = [0] * max(1, int((end - begin) / _NS_PER_S / bin_s))
    for event in reads:
        number = int((event.at - begin) / _NS_PER_S / bin_s)
        if number < len(counts):
            counts[number] += sum(last - first + 1 for _, first, last in event.runs)
    return counts
