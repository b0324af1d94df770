"""Times of records, where no sample of the ends tells a lag in seconds."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import islice

from kohort.client import OffsetSpec
from kohort.model import Millis, TopicPartition
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.watch.source.offsets import OffsetQuestions
from kohort.watch.source.unread import FirstUnread

_WITHIN_MS: Millis = 500
_MOST_QUESTIONS = 64
"""Number of questions for one lag in seconds. Records with sensible timestamps need about twenty."""
_CHECKS, _FIRST_CHECKS = 5, 100
"""Number of first unread records that are read in one round, and in the first one, on which a snapshot depends."""
_WAIT_S, _FIRST_WAIT_S = 0.25, 5.0
"""Time for which a round waits for them. Then reading goes on in the background, so that ends are sampled meanwhile."""

_UNORDERED = "The timestamps of some records are not in order, so some lags in seconds are estimates."

Lagging = dict[TopicPartition, set[int]]
"""Committed offsets below the end, by partition."""


class LagDater:
    """Dater of lags: it finds when the end passed each committed offset."""

    def __init__(self, questions: OffsetQuestions, unread: FirstUnread, live: Live) -> None:
        self._questions = questions
        self._unread = unread
        self._live = live
        self._asked: dict[TopicPartition, int] = {}
        """Number of questions about the lag in each partition."""
        self._reading: asyncio.Task[None] | None = None
        self._most, self._wait_s = _FIRST_CHECKS, _FIRST_WAIT_S

    async def close(self) -> None:
        """End reading."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def date(self, group_ids: Iterable[str]) -> None:
        """Ask for timestamps of records, until the lags of these groups are known within half a second."""
        committed = self.lagging(group_ids)
        if not committed and self._reading is None:
            self._most, self._wait_s = _CHECKS, _WAIT_S
            return
        while committed:
            wanted = self._next_questions(committed)
            answers = await self._questions.ask(wanted)
            for partition, asked in wanted.items():
                table = self._live.ends.get(partition)
                if table is None or partition not in answers:
                    committed.pop(partition, None)
                else:
                    table.insert(asked, answers[partition])
        await self._check(group_ids)

    def _next_questions(self, committed: Lagging) -> dict[TopicPartition, int]:
        wanted: dict[TopicPartition, int] = {}
        for partition, offsets in list(committed.items()):
            table = self._live.ends.get(partition)
            for offset in list(offsets) if table is not None else ():
                assert table is not None
                time = table.next_time(offset, _WITHIN_MS)
                if time is not None and self._asked.get(partition, 0) < _MOST_QUESTIONS:
                    wanted[partition] = time
                    self._asked[partition] = self._asked.get(partition, 0) + 1
                    break
                if time is not None:
                    self._live.problem(_UNORDERED, clock())
                table.keep(offset)
                offsets.remove(offset)
                self._asked.pop(partition, None)
            if partition not in wanted:
                del committed[partition]
        return wanted

    async def _check(self, group_ids: Iterable[str]) -> None:
        """Read the first unread records of old lags, a few at a time."""
        most, wait_s = self._most, self._wait_s
        self._most, self._wait_s = _CHECKS, _WAIT_S
        if self._reading is None:
            now, tables = clock(), self._live.ends
            wanted = (
                (partition, offset)
                for partition, offsets in self.lagging(group_ids).items()
                for offset in offsets
                if tables[partition].must_check(offset, now)
            )
            some = list(islice(wanted, most))
            if not some:
                return
            self._reading = asyncio.create_task(self._read(some), name="kohort-first-unread")
        await asyncio.wait([self._reading], timeout=wait_s)
        if self._reading.done():
            reading, self._reading = self._reading, None
            reading.result()  # raises what is an error of this program

    async def _read(self, wanted: Collection[tuple[TopicPartition, int]]) -> None:
        earliest = int(OffsetSpec.EARLIEST)
        starts = await self._questions.ask({partition: earliest for partition, _ in wanted})
        for partition, offset in wanted:
            table, start = self._live.ends.get(partition), starts.get(partition)
            if table is None or table.end is None or start is None:
                continue
            self._live.started({partition: start.end})
            found = await self._unread.first(partition, max(offset, start.end), table.end)
            if self._live.ends.get(partition) is not table:
                continue  # nobody needs it any more
            if isinstance(found, int):
                table.nothing_before(offset, found)
                continue
            table.checked(offset, found, clock())
            if found is None and table.misdated:
                self._live.problem(_UNORDERED, clock())

    def lagging(self, group_ids: Iterable[str]) -> Lagging:
        """Return the committed offsets of these groups that are below the end."""
        found = defaultdict[TopicPartition, set[int]](set)
        tables = self._live.ends
        for group_id in group_ids:
            group = self._live.groups.get(group_id)
            for partition, commit in {} if group is None else group.commits.items():
                table = tables.get(partition)
                if table is not None and table.points and commit.offset < table.points[-1].end:
                    found[partition].add(commit.offset)
        return found

    def keep_only_committed(self) -> None:
        """Forget what was found for offsets that no group has committed any more."""
        lagging = self.lagging(list(self._live.groups))
        for partition, table in self._live.ends.items():
            table.keep_only(lagging.get(partition, frozenset()))
        self._asked = {partition: asked for partition, asked in self._asked.items() if partition in lagging}
