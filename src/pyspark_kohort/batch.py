"""`spark.read.format("kohort")`: a bounded range of every partition, outside any group."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.errors import KohortError
from pyspark_kohort.offsets import EARLIEST, Positions
from pyspark_kohort.plan import Range
from pyspark_kohort.reading import RangeReader


class BatchReader(RangeReader, DataSourceReader):
    """Plans once: what `startingOffsets` and `endingOffsets` mean when the query is planned."""

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        try:
            tps = self._cluster.partitions(options.topics)
            begins = self._cluster.bound(options.starting, tps)
            untils = self._cluster.bound(options.ending, tps)
            lows, highs = self._cluster.resolve(EARLIEST, tps), self._cluster.ends(tps)
        finally:
            self._disconnect()
        if options.fail_on_data_loss:
            _check_present(begins, untils, lows, highs)
        planned = [Range(tp.topic, tp.partition, max(begins[tp], lows[tp]), min(untils[tp], highs[tp])) for tp in tps]
        return self._tasks([part for part in planned if part.size > 0])


def _check_present(begins: Positions, untils: Positions, lows: Positions, highs: Positions) -> None:
    for tp, begin in begins.items():
        if begin < lows[tp] or untils[tp] > highs[tp]:
            raise KohortError(
                f"{tp} holds offsets {lows[tp]} to {highs[tp]}, not {begin} to {untils[tp]};"
                " failOnDataLoss=false reads what there is."
            )
