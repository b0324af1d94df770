"""`spark.read.format("kohort")`: a bounded range of every partition, outside any group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.offsets import EARLIEST, Positions
from pyspark_kohort.plan import Range
from pyspark_kohort.pushed import Pushed, pushed
from pyspark_kohort.reading import RangeReader


class BatchReader(RangeReader, DataSourceReader):
    """Plans once: what `startingOffsets` and `endingOffsets` mean when the query is planned."""

    _pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        try:
            tps = self._cluster.partitions(options.topics)
            begins = self._cluster.bound(options.starting, tps)
            untils = self._cluster.bound(options.ending, tps)
            since = self._since(tps)
            lows, highs = self._cluster.resolve(EARLIEST, tps), self._cluster.ends(tps)
            ids = {tp.topic: self._cluster.topic_id(tp.topic) for tp in tps}
        finally:
            self._disconnect()
        if options.fail_on_data_loss:
            _check_present(begins, untils, lows, highs)
        planned = [
            self._pushed.clipped(
                Range(
                    tp.topic,
                    tp.partition,
                    max(begins[tp], lows[tp], since[tp]),
                    min(untils[tp], highs[tp]),
                    ids[tp.topic],
                )
            )
            for tp in tps
            if self._pushed.reads(tp)
        ]
        return self._tasks([part for part in planned if part.size > 0])

    def _since(self, tps: Sequence[TopicPartition]) -> Positions:
        """Where the records that are young enough begin; behind all there are where none is."""
        if self._pushed.since is None:
            return dict.fromkeys(tps, 0)
        found = self._cluster.offsets(dict.fromkeys(tps, self._pushed.since))
        ends = self._cluster.ends(tps)
        return {tp: ends[tp] if (offset := found[tp]) is None else offset for tp in tps}


class FilteringReader(BatchReader):
    """A reader of its own: Spark fails a query whose reader takes filters while its configuration says not to."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Spark's order: before `partitions`. All come back, for Spark to apply to each row."""
        self._pushed = pushed(filters)
        return filters


def _check_present(begins: Positions, untils: Positions, lows: Positions, highs: Positions) -> None:
    for tp, begin in begins.items():
        if begin < lows[tp] or untils[tp] > highs[tp]:
            raise KohortError(
                f"{tp} holds offsets {lows[tp]} to {highs[tp]}, not {begin} to {untils[tp]};"
                " failOnDataLoss=false reads what there is."
            )
