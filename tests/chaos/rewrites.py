"""Records that librdkafka itself writes twice, and nobody else: known as its issue 4953.

While a partition changes its leader, a request can be refused (NOT_LEADER_OR_FOLLOWER) whose follower on the same
connection finds the new leader ready: a gap, so that one is refused as out of order, as Apache Kafka refuses it.
librdkafka then begins a new producer epoch for all its partitions, and what it had under way to any of them it sends
again at the new epoch. What was written and not answered, because its broker was killed, stands there twice then: a
broker cannot know a batch of another epoch again.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.history import Entry

_BUMPS_BY_ITSELF = "Librdkafka"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`offsets` of one partition hold what follows them once more."""

    partition: int
    offsets: range
    why: str


def rewrites(history: Sequence[Entry]) -> Iterator[Rewrite]:
    """Those that are so in every respect; any other record that is there twice is a duplicate."""
    sent: dict[tuple[int, int], tuple[int, str]] = {}
    acked: dict[tuple[int, int], int] = {}
    bumps: list[tuple[int, str]] = []
    for entry in history:
        match entry["kind"]:
            case "sent":
                sent[entry["partition"], entry["value"]] = entry["at"], entry["producer"]
            case "acked":
                acked[entry["partition"], entry["offset"]] = entry["at"]
            case "bumped" if entry["producer"] == _BUMPS_BY_ITSELF:
                bumps.append((entry["at"], entry["what"]))
    for entry in history:
        if entry["kind"] != "log":
            continue
        partition, values = entry["partition"], entry["values"]
        for copies, again in _copies(values, entry.get("batches", [])):
            began, producer = sent.get((partition, values[again]), (0, ""))
            unanswered = not any((partition, offset) in acked for offset in copies)
            why = [said for at, said in bumps if began <= at <= acked.get((partition, again), at)]
            if producer == _BUMPS_BY_ITSELF and unanswered and why:
                yield Rewrite(partition, copies, why[-1])


def _copies(values: Sequence[int], batches: Sequence[Sequence[int]]) -> Iterator[tuple[range, int]]:
    """Which offsets in front of the first batch of a producer's later epoch hold what begins there, of earlier ones.

    They were written under an earlier leader, and are all that the producer wrote from the first of them on.
    """
    bases = [base for base, *_ in batches]
    before: dict[int, int] = {}
    for base, leader_epoch, producer_id, producer_epoch in batches:
        is_later = producer_epoch > before.get(producer_id, producer_epoch)
        before[producer_id] = producer_epoch
        first = base
        while is_later and first > 0 and values[first - 1] >= values[base]:
            first -= 1
        if first == base:
            continue
        copies = range(first, base)
        run = list(range(values[base], values[base] + len(copies)))
        is_same_run = values[first:base] == run == values[base : base + len(run)]
        of_earlier = all(
            batch[2] == producer_id and batch[3] < producer_epoch and batch[1] < leader_epoch
            for batch in (batches[bisect.bisect_right(bases, offset) - 1] for offset in copies)
        )
        if is_same_run and of_earlier:
            yield copies, base
