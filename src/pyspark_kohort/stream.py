"""`spark.readStream.format("kohort")` outside a group: the query reads all partitions, and only Spark knows how far."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
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
from kohort.model import UUID, Millis, TopicPartition
from pyspark_kohort import plan
from pyspark_kohort.offsets import EARLIEST, Offset, Positions, offset_from_json
from pyspark_kohort.options import GroupMode
from pyspark_kohort.reading import RangeReader


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What both kinds of streams do alike."""

    _target: Positions | None = None
    _ends: Positions | None = None
    _reached: Positions | None = None
    _batch_at: Millis | None = None
    _tps: Sequence[TopicPartition] = ()
    _tps_at: Millis | None = None
    _topic_ids: Mapping[str, UUID] = MappingProxyType({})

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.max_offsets
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def initialOffset(self) -> dict[str, Any]:
        """Nothing: the first batch pins where it begins, so that a replay of it does not ask for `latest` again."""
        return Offset().to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the log ends, which Spark's progress shows as `latestOffset`; with it what it has no place for."""
        if not self._ends:
            return None
        return Offset(self._ends).to_json() | {"@lag": plan.behind(self._reached or {}, self._ends)} | self._standing()

    def prepareForTriggerAvailableNow(self) -> None:
        """The target: what all partitions hold now, whether they are ours yet or not."""
        self._target = self._cluster.ends(self._cluster.partitions(self._options.topics))

    def stop(self) -> None:
        self._disconnect()

    def _current_partitions(self) -> Sequence[TopicPartition]:
        """Spark asks up to a hundred times a second; partitions are added more rarely."""
        now = time.monotonic_ns() // 1_000_000
        if self._tps_at is None or now - self._tps_at >= self._options.broker.metadata_age_ms:
            self._tps, self._tps_at = self._cluster.partitions(self._options.topics), now
            self._check_same_topics()
        return self._tps

    def _check_same_topics(self) -> None:
        """Offsets of a topic that was made anew mean other records, and by chance they may all be there."""
        ids = {tp.topic: self._cluster.topic_ids[tp.topic] for tp in self._tps}
        anew = sorted(topic for topic in ids.keys() & self._topic_ids.keys() if ids[topic] != self._topic_ids[topic])
        if anew and self._options.fail_on_data_loss:
            raise KohortError(
                f"Topic {anew[0]} was deleted and made anew while this query read it: start again with a checkpoint"
                " of its own; failOnDataLoss=false goes on with the offsets as they are."
            )
        self._topic_ids = ids

    def _check_checkpoint(self, start: Offset) -> None:
        """Before anything is read: whether the checkpoint is this query's."""
        options = self._options
        mine = options.group.group_id if options.group and options.mode is GroupMode.MEMBER else None
        if start.group not in (None, mine) and not options.import_offsets:
            which = f"the query is a member of {mine}" if mine else "the query is no member of it"
            raise KohortError(
                f"The checkpoint is a member's of group {start.group}, and {which}: it tells of that group's partitions"
                " alone. Use a checkpoint of its own, or importOffsets=true to begin where it ends."
            )
        names = set(options.topics.names) | {tp.topic for tp in options.topics.partitions}
        others = sorted({tp.topic for tp in start.positions} - names)
        if names and others and options.fail_on_data_loss:
            raise KohortError(
                f"The checkpoint tells of topic {others[0]}, which the query does not read: use a checkpoint of its"
                " own; failOnDataLoss=false goes on without."
            )

    def _standing(self) -> dict[str, Any]:
        return {}

    def _ends_of(self, begins: Positions) -> dict[TopicPartition, int]:
        """How far a batch may go; where a partition ends before it begins, records are gone."""
        ends = self._cluster.ends(begins)
        self._ends = ends
        if self._options.fail_on_data_loss and (short := [tp for tp in begins if ends[tp] < begins[tp]]):
            tp = short[0]
            raise KohortError(
                f"{tp} ends at {ends[tp]}, before offset {begins[tp]} which this query has reached: the topic was"
                " made anew or cut off; failOnDataLoss=false goes on from its end."
            )
        if self._target is None:
            return ends
        return {tp: min(end, self._target.get(tp, begins[tp])) for tp, end in ends.items()}

    def _too_few(self, begins: Positions, ends: Positions) -> bool:
        """Whether minOffsetsPerTrigger and maxTriggerDelay put the batch off; available-now waits for nothing."""
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
    """The connector's semantics: the checkpoint alone says where a query goes on."""

    _first: Positions | None = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        before = offset_from_json(start)
        if self._tps_at is None:
            self._check_checkpoint(before)
        begins = self._begins(before)
        ends = self._ends_of(begins)
        if self._too_few(begins, ends):
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = plan.advanced(before, begins, plan.limited(begins, ends, rows))
        self._reached = end.positions
        return start if end is before else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._tasks(plan.ranges(offset_from_json(start), offset_from_json(end)))

    def _begins(self, before: Offset) -> dict[TopicPartition, int]:
        """Where each partition goes on; partitions that came later are read from their first record."""
        tps = self._current_partitions()
        if not before.positions:
            if self._first is None:
                self._first = self._cluster.bound(self._options.starting, tps)
            known = self._first
        else:
            known = before.positions
        gone = sorted(set(known) - set(tps))
        if gone and self._options.fail_on_data_loss:
            raise KohortError(
                f"{gone[0]}, which this query has read, does not exist any more; failOnDataLoss=false goes on without."
            )
        fresh = [tp for tp in tps if tp not in known]
        return {tp: known[tp] for tp in tps if tp in known} | self._cluster.resolve(EARLIEST, fresh)
