"""Throughput over time: records per second that the group read, from the start or around each trigger."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from kohort.lab.events import Read
from kohort.lab.trial import Outcome

_NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """Mean and standard deviation of each bin; times are relative to a trigger."""

    bin_s: float
    mean: list[float]
    """Records per second."""
    deviation: list[float]
    begin_s: float = 0.0

    @property
    def times(self) -> list[float]:
        """Middle of each bin, in seconds."""
        return [self.begin_s + (number + 0.5) * self.bin_s for number in range(len(self.mean))]


def throughput(outcomes: Sequence[Outcome], bin_s: float = 0.5) -> Series:
    """Return the throughput over repetitions of a trial, from the first trigger to the end of the shortest."""
    return _series(
        [_counts(outcome, outcome.triggers[0].at, _last(outcome), bin_s) for outcome in outcomes], bin_s, 0.0, 1.0
    )


def throughput_around(
    outcomes: Sequence[Outcome], before_s: float = 1.0, most_s: float = 10.0, bin_s: float = 0.2
) -> Series:
    """Return the throughput around every trigger, until the next one, over triggers and repetitions.

    The series ends where fewer than half of the triggers have data: a trigger that is soon followed
    by another has none for later times.
    """
    counted = []
    for outcome in outcomes:
        ends = [*(trigger.at for trigger in outcome.triggers[1:]), _last(outcome)]
        for trigger, end in zip(outcome.triggers, ends, strict=True):
            begin = trigger.at - int(before_s * _NS_PER_S)
            counted.append(_counts(outcome, begin, min(end, trigger.at + int(most_s * _NS_PER_S)), bin_s))
    return _series(counted, bin_s, -before_s, 0.5)


def _series(counted: Sequence[Sequence[int]], bin_s: float, begin_s: float, part: float) -> Series:
    """Return the series up to the last bin for which at least this part of all counts has data."""
    reaches = sorted(map(len, counted), reverse=True)
    end = reaches[max(0, ceil(part * len(reaches)) - 1)]
    bins = [[counts[number] / bin_s for counts in counted if len(counts) > number] for number in range(end)]
    return Series(
        bin_s, [statistics.fmean(values) for values in bins], [statistics.pstdev(values) for values in bins], begin_s
    )


def pauses_ms(pauses: Iterable[tuple[int, int]]) -> float:
    """Return the total of one member's pauses, in milliseconds."""
    return sum(end - begin for begin, end in pauses) / 1e6


def _last(outcome: Outcome) -> int:
    """Return the time of the last read, in monotonic nanoseconds."""
    return max((event.at for event in outcome.events if isinstance(event, Read)), default=outcome.triggers[0].at)


def _counts(outcome: Outcome, begin: int, end: int, bin_s: float) -> list[int]:
    # The last bin is incomplete and left out.
    counts = [0] * max(1, int((end - begin) / _NS_PER_S / bin_s))
    for event in outcome.events:
        if isinstance(event, Read) and event.at >= begin:
            number = int((event.at - begin) / _NS_PER_S / bin_s)
            if number < len(counts):
                counts[number] += sum(last - first + 1 for _, first, last in event.runs)
    return counts
