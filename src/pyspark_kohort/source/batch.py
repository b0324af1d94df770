"""`spark.read.format("kohort")`: read a bounded range of every partition, outside of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.offsets import Positions
from pyspark_kohort.options import parse
from pyspark_kohort.source.filter_pushdown import PushedFilters, pushed
from pyspark_kohort.source.plan import Range
from pyspark_kohort.source.reading import RangeReader


class BatchReader(RangeReader, DataSourceReader):
    """Reader that resolves `startingOffsets` and `endingOffsets` once, when the query is planned."""

    _pushed = PushedFilters()

    @classmethod
    def of(cls, given: Mapping[str, str], columns: Sequence[str]) -> Self:
        """Return the reader of a query with these options, for some of its columns. Raises ConfigError."""
        return cls(parse(given, streaming=False), StructType([COLUMNS[name] for name in columns]))

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        try:
            tps = self._cluster.partitions(options.topics)
            begins = self._cluster.bound(options.starting, tps)
            untils = self._cluster.bound(options.ending, tps)
            since = self._since(tps)
            lows, highs = self._cluster.starts(tps), self._cluster.ends(tps)
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
        """Return the offset of the first record that the filter on time admits, or the partition's
        end if none does.
        """
        if self._pushed.since is None:
            return dict.fromkeys(tps, 0)
        found = self._cluster.offsets(dict.fromkeys(tps, self._pushed.since))
        ends = self._cluster.ends(tps)
        return {tp: ends[tp] if (offset := found[tp]) is None else offset for tp in tps}


class FilteringReader(BatchReader):
    """Reader that accepts filters.

    It is a separate class because Spark fails a query whose reader accepts filters if its
    configuration disables them.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Set the filters; Spark calls this before `partitions`.

        Return all of them, so that Spark applies them to each row.
        """
        self._pushed = pushed(filters)
        return filters


def _check_present(begins: Positions, untils: Positions, lows: Positions, highs: Positions) -> None:
    for tp, begin in begins.items():
        if begin < lows[tp] or untils[tp] > highs[tp]:
            raise KohortError(
                f"{tp} holds offsets {lows[tp]} to {highs[tp]}, not {begin} to {untils[tp]};"
                " failOnDataLoss=false reads what there is."
            )
