"""Partitions that a query owns, the positions of its next batch, and the offsets that it may commit. Pure.

The order of Spark's calls shows when a batch is done: `latestOffset(start)` means that the batch
that ended at `start` is in the sink and in the checkpoint. No other call shows that in time: Spark
calls `commit` one batch late, and never for the last batch. After a crash, the first call is
`partitions(start, end)` of the batch that was in progress.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Self

from kohort.model import TopicPartition
from pyspark_kohort.offsets import Claim, Offset, Positions, TopicIds
from pyspark_kohort.source import Range, advanced_offset, clipped_ranges, limited_ends, planned_ranges


class GroupCommit(NamedTuple):
    """Offset that the group holds for a partition.

    Its metadata has the query that committed, the query's claim, and the topic id.
    """

    offset: int
    query: str
    claim: Claim | None = None
    topic_id: str | None = None

    @property
    def metadata(self) -> str:
        known = [str(value) for value in (self.claim, self.topic_id) if value is not None]
        return " ".join([self.query, *known])

    @classmethod
    def of(cls, offset: int, metadata: str) -> Self:
        """Parse a commit. Metadata of another client is taken as the name of a query."""
        query, *rest = metadata.split(" ")
        try:
            claim, topic_id = (rest[0], rest[1] if len(rest) == 2 else None) if 1 <= len(rest) <= 2 else ("", None)
            return cls(offset, query, Claim.of(claim), topic_id)
        except ValueError:
            return cls(offset, metadata)


class Ledger:
    """Partitions of one query. The caller passes on what the group grants and what Spark asks.

    Call `resume` first. The query's name is part of its offsets and of its commits: after a restart,
    it shows that no other query has owned a partition since. `fresh_name` returns a name that was
    never used.
    """

    def __init__(self, fresh_name: Callable[[], str], group: str | None = None) -> None:
        self._fresh_name = fresh_name
        self._group = group
        self.query = self._root = fresh_name()
        self.topic_ids: TopicIds = {}
        """Ids of the topics that the positions refer to."""
        self._claims: dict[TopicPartition, Claim] = {}
        self._moved_back = False
        self._resumed = False
        self._next: dict[TopicPartition, int] = {}
        self._counted: dict[TopicPartition, int] = {}
        """Number of this query's last claim in its first series."""
        self._series = 0
        """Number of series begun in addition to the first."""
        self._anew: set[TopicPartition] = set()
        """Partitions of topics that were recreated since.

        A sink distinguishes their rows from earlier ones by the topic id.
        """
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
        """Partitions that this query owns, each with the offset at which its next batch begins."""
        return self._next

    @property
    def end(self) -> Offset | None:
        """End of the batch in progress, or None before the first batch."""
        return self._end

    def reading(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return those partitions that the batch in progress reads."""
        return [tp for tp in partitions if tp in self._reading]

    def resume(self, start: Offset, end: Offset | None = None) -> None:
        """Continue the work of an earlier process of this query.

        That process had reached `start`, or had planned a batch from `start` to `end`. In the
        latter case, `end` shows which partitions of `start` that process still owned.
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

    def grant(self, tp: TopicPartition, committed: GroupCommit | None, first: int) -> None:
        """Own a partition: continue from the group's offset, or from `first` if the group has none.

        The checkpoint may prove more progress than the group's offset. It counts only if the group's
        offset was committed by this query. Any other owner since then has committed its own offset,
        and may have read records that the checkpoint claims.
        """
        claimed = self._claimed.pop(tp, None)
        if committed is None:
            begin = first if claimed is None else claimed
        elif committed.query == self.query:
            begin = max(committed.offset, claimed or 0)
        else:
            begin = committed.offset
            self._foreign.add(tp)
        # A batch that is about to be replayed will complete what the checkpoint claims, unless another query
        # has taken over the partition.
        pending = self._replaying and tp not in self._foreign
        begin = max(begin, self._proven.get(tp, begin))
        self._proven[tp] = self._next[tp] = begin
        # A claim counts once it is committed. This includes a claim to a partition that this query owned
        # before: the group's numbers may have begun again since, and then only the claim distinguishes this
        # membership's writers from those of an earlier one.
        self._committed[tp] = None
        known = committed.claim if committed else None
        self._claims[tp] = Claim(known.root, known.number + 1) if known else self._new_series(tp)
        if self._claims[tp].root == self._root:
            self._counted[tp] = self._claims[tp].number
        if self._last_word.get(tp, begin) > begin and not pending:
            # The newest offset in the checkpoint claims more than this query read. If this query committed
            # under the name in that offset, a restart would trust it. So take another name and commit
            # everything again under it.
            self.query = self._fresh_name()
            self._committed = dict.fromkeys(self._committed)

    def _new_series(self, tp: TopicPartition) -> Claim:
        """Return the first claim of a series, for a partition without a claim in the group.

        The group never had one, has one of a deleted topic of the same name, or it was removed.

        A number that a series had before would put the rows before the fence of later claims. A sink
        would take them for rows of a query that lost the partition, and omit them silently.
        """
        if tp in self._counted and tp not in self._anew:
            self._series += 1
            return Claim(f"{self._root}-{self._series}", 1)
        self._anew.discard(tp)
        return Claim(self._root, self._counted.get(tp, 0) + 1)

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """Remove partitions that this query no longer owns, because they were revoked between batches or lost."""
        for tp in tps:
            self._next.pop(tp, None)
            self._committed.pop(tp, None)

    def know(self, topic_ids: TopicIds) -> None:
        """Set the current topic ids. What is known about a deleted topic of the same name is forgotten."""
        anew = {topic for topic, now in topic_ids.items() if self.topic_ids.get(topic, now) != now}
        for known in (self._next, self._committed, self._proven, self._claimed, self._reading):
            for tp in [tp for tp in known if tp.topic in anew]:
                known.pop(tp)
        self._anew |= {tp for tp in self._counted if tp.topic in anew}
        self._last_word = {tp: at for tp, at in self._last_word.items() if tp.topic not in anew}
        self.topic_ids = {**self.topic_ids, **topic_ids}

    def rewind(self, positions: Positions) -> None:
        """Continue from these positions, which are before the proven ones: the partitions were truncated."""
        for tp, offset in positions.items():
            if tp in self._next:
                self._next[tp] = self._proven[tp] = offset
                self._moved_back = True
        if self._moved_back:
            # A restart would trust the checkpoint, which claims more, if this query kept its name.
            self.query = self._fresh_name()
            self._committed = dict.fromkeys(self._committed)

    def complete(self, start: Offset) -> None:
        """Mark a batch as done: everything up to `start` is in Spark's sink and in its checkpoint."""
        for tp, until in self._reading.items():
            if start.positions.get(tp) == until:
                # The partition may have been lost and gained again meanwhile, at an offset that another
                # member committed.
                self._proven[tp] = max(until, self._proven.get(tp, until))
                if tp in self._next:
                    self._next[tp] = max(until, self._next[tp])
        self._reading = {}

    def commits(self) -> dict[TopicPartition, GroupCommit]:
        """Return the offsets to commit: proven progress, and claims to partitions that this query just gained."""
        return {
            tp: GroupCommit(self._proven[tp], self.query, self._claims[tp], self.topic_ids.get(tp.topic))
            for tp, committed in self._committed.items()
            if committed is None or self._proven[tp] > committed
        }

    def committed(self, commits: Mapping[TopicPartition, GroupCommit]) -> None:
        """Record commits that the group accepted.

        A commit of a partition that was given up or gained again meanwhile is ignored.
        """
        for tp, commit in commits.items():
            if tp in self._next and (commit.query, commit.claim) == (self.query, self._claims[tp]):
                self._committed[tp] = commit.offset

    def advance(self, start: Offset, ends: Positions, rows: int | None, epoch: int | None = None) -> Offset:
        """Plan the next batch of up to `rows` records; return `start` itself if there is nothing to read.

        `epoch` is the generation or member epoch in which this query owns all its partitions.
        """
        assert self._resumed
        assert not self._reading
        ends = {tp: ends.get(tp, begin) for tp, begin in self._next.items()}
        untils = limited_ends(self._next, ends, rows)
        end = advanced_offset(start, self._next, untils, back=self._moved_back)
        self._moved_back = False
        if end is start and self._skipped:
            # The last batch was a replay that omitted a partition because it has a new owner. The offset of
            # that batch claims the partition, so it must not remain the last in the checkpoint: a restart
            # would take it as done.
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
        """Add what a restart and the sinks need to know about the planner of the batch."""
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
        """Return the ranges still to read of a batch that an earlier process planned. Commit only after this call.

        These are the ranges of partitions that this query owns and that no other query owned in
        between. Partitions that another query has owned are left to a later batch, which continues
        from the group's offset. If only one of two runs of a batch read such a partition, sinks
        that identify a batch by its number would skip its records.
        """
        assert self._resumed
        self._replaying = False
        planned = planned_ranges(start, end)
        ids = self.topic_ids
        kept = {
            part.tp: self._next[part.tp]
            for part in planned
            if part.tp in self._next
            and part.tp not in self._foreign
            and (part.topic_id is None or ids.get(part.topic, part.topic_id) == part.topic_id)
        }
        todo = clipped_ranges(planned, kept)
        self._skipped = any(part.tp not in kept for part in planned)
        self._reading = {part.tp: part.until for part in todo}
        self._next.update(self._reading)
        self._end = end
        self._replayed = todo
        return todo

    def retained(self, planned: Iterable[Range]) -> list[Range]:
        """Return the ranges of the batch in progress that this query still owns.

        Spark may ask several times, also for a batch that is replayed.
        """
        batch = planned if self._replayed is None else self._replayed
        kept = [part for part in batch if part.tp in self._next]
        self._reading = {part.tp: part.until for part in kept}
        return kept
