"""What a query owns of its group, where its next batch begins, and what it may commit. Pure.

Spark's order of calls decides when a batch is done: `latestOffset(start)` says that the batch which ended at `start`
is in the sink and in the checkpoint, and nothing else says so in time (`commit` comes one batch late, and never for
the last). After a crash the first call is `partitions(start, end)` of the batch that was under way.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Self

from kohort.model import TopicPartition
from pyspark_kohort import plan
from pyspark_kohort.offsets import Claim, Offset, Positions, TopicIds
from pyspark_kohort.plan import Range


class Commit(NamedTuple):
    """What the group holds for a partition, and what its metadata says: the query that committed, its claim, and the
    topic's id."""

    offset: int
    query: str
    claim: Claim | None = None
    topic_id: str | None = None

    @property
    def metadata(self) -> str:
        known = [str(one) for one in (self.claim, self.topic_id) if one is not None]
        return " ".join([self.query, *known])

    @classmethod
    def of(cls, offset: int, metadata: str) -> Self:
        """What another client wrote is taken for a query's name."""
        query, *rest = metadata.split(" ")
        try:
            claim, topic_id = (rest[0], rest[1] if len(rest) == 2 else None) if 1 <= len(rest) <= 2 else ("", None)
            return cls(offset, query, Claim.of(claim), topic_id)
        except ValueError:
            return cls(offset, metadata)


class Ledger:
    """One query's partitions. The caller passes on what the group grants and what Spark asks.

    `resume` comes first. The query's name stands in its offsets and in its commits, which is how a restart knows that
    nobody else has owned a partition since; `fresh_name` makes one that was never used.
    """

    def __init__(self, fresh_name: Callable[[], str], group: str | None = None) -> None:
        self._fresh_name = fresh_name
        self._group = group
        self.query = self._root = fresh_name()
        self.topic_ids: TopicIds = {}
        """Of the topics that our positions are of."""
        self._claims: dict[TopicPartition, Claim] = {}
        self._moved_back = False
        self._resumed = False
        self._next: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int | None] = {}
        self._reading: dict[TopicPartition, int] = {}
        self._proven: dict[TopicPartition, int] = {}
        self._claimed: dict[TopicPartition, int] = {}
        self._last_word: Positions = {}
        self._foreign: set[TopicPartition] = set()
        self._end: Offset | None = None
        self._replaying = False
        self._replayed: list[Range] | None = None
        self._skipped = False

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

    def resume(self, start: Offset, end: Offset | None = None) -> None:
        """Take over from an earlier process of this query, which got to `start`, or was on the way from it to `end`.

        What was planned next shows what of `start` that process still took for its own.
        """
        if self._resumed:
            return
        self._resumed = True
        self.query = start.query or (end.query if end else None) or self.query
        self._replaying = end is not None
        planned = start.positions if end is None else {**start.positions, **end.pins}
        claimed = start.positions if end is None else end.positions
        known = {**start.topic_ids, **(end.topic_ids if end else {})}
        same = {tp for tp in claimed if self.topic_ids.get(tp.topic) in (None, known.get(tp.topic))}
        same |= {tp for tp in claimed if tp.topic not in known}
        self._last_word = {tp: at for tp, at in claimed.items() if tp in same}
        self._claimed = {tp: planned[tp] for tp in claimed if tp in planned and tp in same}

    def grant(self, tp: TopicPartition, committed: Commit | None, first: int) -> None:
        """We own it now: go on from the group's offset, or from `first` where it has none.

        Our checkpoint may prove more than the group knows. It counts only while the group's offset is our own: whoever
        owned the partition since has said so, and may have been left records that our checkpoint claims.
        """
        claimed = self._claimed.pop(tp, None)
        if committed is None:
            begin = first if claimed is None else claimed
        elif committed.query == self.query:
            begin = max(committed.offset, claimed or 0)
        else:
            begin = committed.offset
            self._foreign.add(tp)
        # A batch that is about to be replayed is a claim that will come true, unless another has taken its part over.
        pending = self._replaying and tp not in self._foreign
        begin = max(begin, self._proven.get(tp, begin))
        self._proven[tp] = self._next[tp] = begin
        # A claim counts once the group has it, also one to what was ours before: the group's numbers may have begun
        # anew since, and then nothing else tells writers of this stay from those of an earlier one.
        self._committed[tp] = None
        known = committed.claim if committed else None
        self._claims[tp] = Claim(known.root, known.number + 1) if known else Claim(self._root, 1)
        if self._last_word.get(tp, begin) > begin and not pending:
            # The checkpoint's newest offset claims more than is true. A commit under its name would make a restart
            # from it believe that, so we take another name, and say everything again under it.
            self.query = self._fresh_name()
            self._committed = dict.fromkeys(self._committed)

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """We own them no more: given up between batches, or lost."""
        for tp in tps:
            self._next.pop(tp, None)
            self._committed.pop(tp, None)

    def know(self, topic_ids: TopicIds) -> None:
        """The topics' ids now. What was known of a topic that had the name before is forgotten."""
        anew = {topic for topic, now in topic_ids.items() if self.topic_ids.get(topic, now) != now}
        for known in (self._next, self._committed, self._proven, self._claimed, self._reading):
            for tp in [tp for tp in known if tp.topic in anew]:
                known.pop(tp)
        self._last_word = {tp: at for tp, at in self._last_word.items() if tp.topic not in anew}
        self.topic_ids = {**self.topic_ids, **topic_ids}

    def rewind(self, positions: Positions) -> None:
        """Go on from these, which are before what was proven: the partitions were cut off."""
        for tp, offset in positions.items():
            if tp in self._next:
                self._next[tp] = self._proven[tp] = offset
                self._moved_back = True
        if self._moved_back:
            # Under the old name a restart would believe the checkpoint, which claims more.
            self.query = self._fresh_name()
            self._committed = dict.fromkeys(self._committed)

    def complete(self, start: Offset) -> None:
        """Spark begins where `start` is: everything up to there is in its sink and its checkpoint."""
        for tp, until in self._reading.items():
            if start.positions.get(tp) == until:
                # It may have been lost and won back meanwhile, behind what another has committed.
                self._proven[tp] = max(until, self._proven.get(tp, until))
                if tp in self._next:
                    self._next[tp] = max(until, self._next[tp])
        self._reading = {}

    def commits(self) -> dict[TopicPartition, Commit]:
        """What the group should hear: what is proven, and that what was won is ours now."""
        return {
            tp: Commit(self._proven[tp], self.query, self._claims[tp], self.topic_ids.get(tp.topic))
            for tp, committed in self._committed.items()
            if committed is None or self._proven[tp] > committed
        }

    def committed(self, commits: Mapping[TopicPartition, Commit]) -> None:
        """The group has heard it. Of a partition that was given up or won anew meanwhile it says nothing."""
        for tp, commit in commits.items():
            if tp in self._next and (commit.query, commit.claim) == (self.query, self._claims[tp]):
                self._committed[tp] = commit.offset

    def advance(self, start: Offset, ends: Positions, rows: int | None, epoch: int | None = None) -> Offset:
        """Plan the next batch, up to `rows` records; `start` itself where there is none to run.

        `epoch` is the generation or member epoch in which all that we own is ours.
        """
        assert self._resumed
        assert not self._reading
        ends = {tp: ends.get(tp, begin) for tp, begin in self._next.items()}
        untils = plan.limited(self._next, ends, rows)
        end = plan.advanced(start, self._next, untils, back=self._moved_back)
        self._moved_back = False
        if end is start and self._skipped:
            # The last batch was a replay that left a partition to its new owner. Its offset, which claims that
            # partition, must not stay the checkpoint's last word: a restart would take it as done.
            kept = {tp: at for tp, at in start.positions.items() if self._next.get(tp) == at}
            end = start if kept == start.positions else Offset(kept)
        self._skipped = False
        self._reading = {tp: untils[tp] for tp, begin in self._next.items() if untils[tp] > begin}
        self._next.update(self._reading)
        self._end = end if end is start else self._named(end, epoch)
        self._last_word = self._end.positions
        self._replayed = None
        return self._end

    def _named(self, end: Offset, epoch: int | None) -> Offset:
        """With all that a restart and the sinks must know of who planned it."""
        topics = {tp.topic for tp in end.positions}
        return replace(
            end,
            query=self.query,
            epoch=epoch,
            group=self._group,
            topic_ids={topic: known for topic, known in self.topic_ids.items() if topic in topics},
            claims={tp: self._claims[tp] for tp in end.positions},
        )

    def replay(self, start: Offset, end: Offset) -> list[Range]:
        """What we still have to read of a batch that an earlier process planned. Commit only after it.

        Only what is ours, and was nobody else's meanwhile. What another query has owned is left to a later batch, from
        the group's offset on: a replay that reads it now and not the first time, or the other way round, would be
        skipped by sinks that know the batch by its number.
        """
        assert self._resumed
        self._replaying = False
        planned = plan.ranges(start, end)
        ids = self.topic_ids
        kept = {
            part.tp: self._next[part.tp]
            for part in planned
            if part.tp in self._next
            and part.tp not in self._foreign
            and (part.topic_id is None or ids.get(part.topic, part.topic_id) == part.topic_id)
        }
        todo = plan.clipped(planned, kept)
        self._skipped = any(part.tp not in kept for part in planned)
        self._reading = {part.tp: part.until for part in todo}
        self._next.update(self._reading)
        self._end = end
        self._replayed = todo
        return todo

    def retained(self, planned: Iterable[Range]) -> list[Range]:
        """What of the batch under way is still ours; Spark may ask several times, also for one that is replayed."""
        batch = planned if self._replayed is None else self._replayed
        kept = [part for part in batch if part.tp in self._next]
        self._reading = {part.tp: part.until for part in kept}
        return kept
