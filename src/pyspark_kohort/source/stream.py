"""`spark.readStream.format("kohort")` outside of a group: all partitions; the checkpoint alone has the progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kohort.errors import KohortError
from kohort.model import Millis, TopicPartition
from pyspark_kohort.offsets import EARLIEST, Offset, Positions, TopicIds, offset_from_json
from pyspark_kohort.options import GroupMode
from pyspark_kohort.source import plan
from pyspark_kohort.source.reading import RangeReader

_log = logging.getLogger(__name__)


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Common base of the two streaming readers."""

    _target: Positions | None = None
    _ends: Positions | None = None
    _reached: Positions | None = None
    _batch_at: Millis | None = None
    _tps: Sequence[TopicPartition] = ()
    _tps_at: Millis | None = None
    _topic_ids: TopicIds = MappingProxyType({})
    """Topic ids at the last check of the partitions."""
    _first_ids: TopicIds = MappingProxyType({})
    """Topic ids when this reader first saw the topics, for positions without ids."""
    _renewed: frozenset[tuple[str, str]] = frozenset()
    """Recreated topics that were logged, with their new ids."""

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.max_offsets
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def initialOffset(self) -> dict[str, Any]:
        """Return an empty offset.

        The first batch stores its beginning, so a replay of it does not resolve `latest` again.
        """
        return Offset().to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the log, which Spark's progress shows as `latestOffset`.

        It also has the lag and the member's status, for which the progress has no other place.
        """
        if not self._ends:
            return None
        return (
            Offset(self._ends).to_json() | {"@lag": plan.behind(self._reached or {}, self._ends)} | self._member_state()
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """Set the target to the current end of all partitions, whether this query owns them yet or not."""
        self._target = self._cluster.ends(self._cluster.partitions(self._options.topics))

    def stop(self) -> None:
        self._disconnect()

    def _current_partitions(self) -> Sequence[TopicPartition]:
        """Return the partitions, from a cache: Spark asks up to a hundred times a second."""
        now = time.monotonic_ns() // 1_000_000
        if self._tps_at is None or now - self._tps_at >= self._options.broker.metadata_age_ms:
            self._tps, self._tps_at = self._cluster.partitions(self._options.topics), now
            topics = {tp.topic for tp in self._tps}
            self._topic_ids = {topic: known for topic in topics if (known := self._cluster.topic_id(topic)) is not None}
            self._first_ids = self._topic_ids | dict(self._first_ids)
        return self._tps

    def _made_anew(self, before: Offset) -> frozenset[str]:
        """Return the topics that were recreated since their positions in `before` were reached.

        The same offsets denote other records, and may exist by chance. Raises KohortError if
        failOnDataLoss is on.
        """
        known = {**self._first_ids, **before.topic_ids}
        anew = {topic: now for topic, now in self._topic_ids.items() if now != known.get(topic, now)}
        if anew and self._options.fail_on_data_loss:
            raise KohortError(
                f"Topic {min(anew)} was deleted and created again since this query read it: start with a new"
                " checkpoint. Or set failOnDataLoss=false: then the query reads the new topic from its start."
            )
        for topic, now in sorted(anew.items() - self._renewed):
            _log.warning(
                "Topic %s was deleted and created again, with the id %s: the query reads it from its start. Records"
                " of the old topic that it had not read are lost.",
                topic,
                now,
            )
        self._renewed |= anew.items()
        return frozenset(anew)

    def _check_checkpoint(self, start: Offset) -> None:
        """Check, before anything is read, that the checkpoint belongs to this query. Raises KohortError."""
        options = self._options
        mine = options.group.group_id if options.group and options.mode is GroupMode.MEMBER else None
        if start.group not in (None, mine) and not options.import_offsets:
            which = f"the query is a member of {mine}" if mine else "the query is no member of it"
            raise KohortError(
                f"The checkpoint is a member's of group {start.group}, and {which}: it covers that group's partitions"
                " alone. Use a checkpoint of its own, or importOffsets=true to begin at its end."
            )
        names = set(options.topics.names) | {tp.topic for tp in options.topics.partitions}
        others = sorted({tp.topic for tp in start.positions} - names)
        if names and others and options.fail_on_data_loss:
            raise KohortError(
                f"The checkpoint has topic {others[0]}, which the query does not read: use a checkpoint of its"
                " own; failOnDataLoss=false continues without it."
            )

    def _member_state(self) -> dict[str, Any]:
        return {}

    def _ends_of(self, begins: Positions) -> dict[TopicPartition, int]:
        """Return the ends that a batch may reach, and store the ends of the log."""
        ends = self._cluster.ends(begins)
        self._ends = ends = ends | self._waiting_for_transactions(begins, ends)
        if self._target is None:
            return ends
        return {tp: min(end, self._target.get(tp, begins[tp])) for tp, end in ends.items()}

    def _waiting_for_transactions(self, begins: Positions, ends: Positions) -> dict[TopicPartition, int]:
        """Return the positions beyond a transaction that is still open, which are in the log.

        A query, or a member of its group, that read uncommitted records has reached them. They are not
        cut off: with read_committed the query waits there for the end of the transaction.
        """
        beyond = [tp for tp, begin in begins.items() if ends[tp] < begin]
        if not beyond or not self._cluster.broker.read_committed:
            return {}
        written = self._cluster.high_watermarks(beyond)
        return {tp: begins[tp] for tp in beyond if begins[tp] <= written[tp]}

    def _cut_off(self, begins: Positions, before: Offset) -> dict[TopicPartition, int]:
        """Return new positions for partitions that end before the position that the query has reached.

        Call this after `_ends_of`. A topic with the same id was truncated by an unclean election:
        what is written after its end is new. A topic whose id is not in the checkpoint may have been
        recreated, and is read from its start. Raises KohortError if failOnDataLoss is on.
        """
        ends = self._ends or {}
        short = sorted(tp for tp in begins if ends[tp] < begins[tp])
        if not short:
            return {}
        if self._options.fail_on_data_loss:
            tp = short[0]
            raise KohortError(
                f"{tp} ends at {ends[tp]}, before offset {begins[tp]} which this query has reached: the topic was"
                " created again or truncated. failOnDataLoss=false reads a new topic from its start, and one"
                " that was truncated from its end."
            )
        unknown = [tp for tp in short if tp.topic not in before.topic_ids]
        found = {tp: ends[tp] for tp in short} | (self._cluster.resolve(EARLIEST, unknown) if unknown else {})
        for tp in short:
            sentence = "%s ends at %d, before offset %d which this query has reached: it continues at %d"
            _log.warning(sentence, tp, ends[tp], begins[tp], found[tp])
        return found

    def _too_few(self, begins: Positions, ends: Positions) -> bool:
        """Return whether minOffsetsPerTrigger and maxTriggerDelay postpone the batch.

        An available-now run never waits.
        """
        least = self._options.min_offsets
        if least is None or self._target is not None:
            return False
        now = time.monotonic_ns() // 1_000_000
        if self._batch_at is None:
            self._batch_at = now
        if plan.behind(begins, ends) < least and now - self._batch_at < self._options.max_trigger_delay_ms:
            return True
        self._batch_at = now
        return False


class StandaloneReader(StreamReader):
    """Reader with the semantics of spark-sql-kafka: the checkpoint alone determines the positions."""

    _first: Positions | None = None
    _gone: frozenset[TopicPartition] = frozenset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = offset_from_json(start)
        if self._tps_at is None:
            self._check_checkpoint(before)
        begins = self._begins(before)
        ends = self._ends_of(begins)
        cut_off = self._cut_off(begins, before)
        begins |= cut_off
        if not cut_off and self._too_few(begins, ends):
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = plan.advanced_offset(before, begins, plan.limited_ends(begins, ends, rows), back=True)
        self._reached = end.positions
        if end is before:
            return start
        return replace(end, topic_ids=_of_topics(self._topic_ids, end.positions)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._tasks(plan.planned_ranges(offset_from_json(start), offset_from_json(end)))

    def _begins(self, before: Offset) -> dict[TopicPartition, int]:
        """Return the position of each partition; partitions that were added later are read from their first record."""
        tps = self._current_partitions()
        if not before.positions:
            if self._first is None:
                self._first = self._cluster.bound(self._options.starting, tps)
            known = self._first
        else:
            known = before.positions
        anew = self._made_anew(before)
        known = {tp: offset for tp, offset in known.items() if tp.topic not in anew}
        gone = sorted(set(known) - set(tps))
        if gone and self._options.fail_on_data_loss:
            raise KohortError(
                f"{gone[0]}, which this query has read, no longer exists; failOnDataLoss=false continues without it."
            )
        if newly_gone := sorted(set(gone) - self._gone):
            names = ", ".join(map(str, newly_gone[:5]))
            _log.warning("%d partitions that this query has read do not exist any more: %s", len(newly_gone), names)
        self._gone = frozenset(gone)
        fresh = [tp for tp in tps if tp not in known]
        return {tp: known[tp] for tp in tps if tp in known} | self._cluster.resolve(EARLIEST, fresh)


def _of_topics(ids: TopicIds, tps: Iterable[TopicPartition]) -> TopicIds:
    return {topic: ids[topic] for topic in {tp.topic for tp in tps} if topic in ids}
