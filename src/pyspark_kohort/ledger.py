"""What a query owns of its group, where its next batch begins, and what it may commit. Pure.

Spark's order of calls decides when a batch is done: `latestOffset(start)` says that the batch which ended at `start`
is in the sink and in the checkpoint, and nothing else says so in time (`commit` comes one batch late, and never for
the last). After a crash the first call is `partitions(start, end)` of the batch that was under way.
"""

from collections.abc import Iterable, Mapping

from kohort.model import TopicPartition
from pyspark_kohort import plan
from pyspark_kohort.offsets import Offset, Positions
from pyspark_kohort.plan import Range


class Ledger:
    """One query's partitions. The caller passes on what the group grants and what Spark asks."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int | None] = {}
        self._reading: dict[TopicPartition, int] = {}
        self._proven: dict[TopicPartition, int] = {}
        self._end: Offset | None = None
        self._skipped = False
        self._started = False

    @property
    def owned(self) -> Mapping[TopicPartition, int]:
        """Our partitions, with where the next batch begins."""
        return self._next

    @property
    def end(self) -> Offset | None:
        """Where the batch under way ends; None before the first."""
        return self._end

    def reading(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that the batch under way reads."""
        return [tp for tp in partitions if tp in self._reading]

    def grant(self, tp: TopicPartition, committed: int | None, first: int) -> None:
        """We own it now: go on from the group's offset, or from `first` where it has none.

        Where our own checkpoint proves more than the group knows, our sink has it, and nobody else has committed it.
        """
        begin = first if committed is None else committed
        self._proven[tp] = self._next[tp] = max(begin, self._proven.get(tp, begin))
        self._committed[tp] = committed

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """We own them no more: given up between batches, or lost."""
        for tp in tps:
            self._next.pop(tp, None)
            self._committed.pop(tp, None)

    def complete(self, start: Offset) -> None:
        """Spark begins where `start` is: everything up to there is in its sink and its checkpoint."""
        if not self._started:  # what an earlier process of this query did
            self._started = True
            for tp, at in start.positions.items():
                self._proven[tp] = max(at, self._proven.get(tp, at))
                if tp in self._next:
                    self._next[tp] = self._proven[tp]
        for tp, until in self._reading.items():
            if start.positions.get(tp) == until:
                self._proven[tp] = until
        self._reading = {}

    def commits(self) -> dict[TopicPartition, int]:
        """What the group should hear: what is proven, and where a partition begins that had no offset."""
        return {
            tp: self._proven[tp]
            for tp, committed in self._committed.items()
            if committed is None or self._proven[tp] > committed
        }

    def committed(self, offsets: Positions) -> None:
        """The group has heard it."""
        for tp, offset in offsets.items():
            if tp in self._next:
                self._committed[tp] = offset

    def advance(self, start: Offset, ends: Positions, rows: int | None) -> Offset:
        """Plan the next batch, up to `rows` records; `start` itself where there is none to run."""
        assert not self._reading
        ends = {tp: ends.get(tp, begin) for tp, begin in self._next.items()}
        untils = plan.limited(self._next, ends, rows)
        end = plan.advanced(start, self._next, untils)
        if end is start and self._skipped:
            # The last batch was a replay that left a partition to its new owner. Its offset, which claims that
            # partition, must not stay the checkpoint's last word: a restart would take it as done.
            kept = {tp: at for tp, at in start.positions.items() if self._next.get(tp) == at}
            end = Offset(kept)
        self._skipped = False
        self._reading = {tp: untils[tp] for tp, begin in self._next.items() if untils[tp] > begin}
        self._next.update(self._reading)
        self._end = end
        return end

    def replay(self, start: Offset, end: Offset) -> list[Range]:
        """What we still have to read of a batch that an earlier process planned; we have joined the group before."""
        self.complete(start)
        planned = plan.ranges(start, end)
        todo = plan.clipped(planned, self._next)
        self._skipped = any(part.tp not in self._next for part in planned)
        self._reading = {part.tp: part.until for part in todo}
        self._next.update(self._reading)
        self._end = end
        return todo

    def retained(self, planned: Iterable[Range]) -> list[Range]:
        """What of a planned batch is still ours."""
        kept = [part for part in planned if part.tp in self._next]
        self._reading = {part.tp: part.until for part in kept}
        return kept
