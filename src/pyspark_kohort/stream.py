"""`spark.readStream.format("kohort")` outside a group: the query reads all partitions, and only Spark knows how far."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
from pyspark_kohort import plan
from pyspark_kohort.offsets import EARLIEST, Offset, Positions, offset_from_json
from pyspark_kohort.reading import RangeReader


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What both kinds of streams do alike."""

    _target: Positions | None = None
    _ends: Positions | None = None
    _batch_at: Millis | None = None
    _tps: Sequence[TopicPartition] = ()
    _tps_at: Millis | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.max_offsets
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def initialOffset(self) -> dict[str, Any]:
        """Nothing: the first batch pins where it begins, so that a replay of it does not ask for `latest` again."""
        return Offset().to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return Offset(self._ends).to_json() if self._ends else None

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
        return self._tps

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
        begins = self._begins(before)
        ends = self._ends_of(begins)
        if self._too_few(begins, ends):
            return start
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = plan.advanced(before, begins, plan.limited(begins, ends, rows))
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
