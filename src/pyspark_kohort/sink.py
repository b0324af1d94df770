"""`df.write.format("kohort")` and `df.writeStream.format("kohort")`: rows become records, task by task.

A row is in the topic when its task is done; there is no transaction, so readers see rows of tasks that fail later. What
a task writes is numbered (KIP-98), and Spark's driver takes the numbers: an attempt that follows a failed one asks the
broker how far that one came under the same number, and goes on behind it. So a retry repeats nothing, as long as the
query computes the same rows in the same order again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_kohort import worker
from pyspark_kohort.cluster import Cluster
from pyspark_kohort.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from pyspark_kohort.sending import Number

_TASKS = 200
"""Numbers for so many tasks: Spark does not say how many there will be. Tasks beyond number themselves, and an attempt
that follows a failed one repeats what that one wrote."""
_LAST_EPOCH = 2**15 - 1


@dataclass
class Written(WriterCommitMessage):
    """What one task tells the driver."""

    rows: int


class TopicWriter:
    """Spark pickles a writer for its executors, and only that copy writes: so the numbers are taken at pickling."""

    _streaming = False

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._numbers: Sequence[Number] = ()

    def __getstate__(self) -> dict[str, Any]:
        if self._options.idempotent and not self._numbers:
            self._numbers = _numbers_of_job(self._options, streaming=self._streaming)
        return {"_options": self._options, "_numbers": self._numbers}

    def _write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        from pyspark_kohort.writing import write_rows

        worker.settle()
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        number = self._numbers[task] if task < len(self._numbers) else None
        batch_id = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        retried = number is not None and context.attemptNumber() > 0
        return Written(write_rows(batches, self._options, number, seed=task + batch_id, resume=retried))


class BatchWriter(TopicWriter, DataSourceArrowWriter):
    """Of a DataFrame that ends."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """On an executor: one task's rows."""
        return self._write(iterator)


class StreamWriter(TopicWriter, DataSourceStreamArrowWriter):
    """Of one micro-batch."""

    _streaming = True

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """On an executor: one task's rows."""
        return self._write(iterator)


class _Numbers(threading.local):
    """Python workers live from micro-batch to micro-batch; each query keeps its ids, which brokers remember for a day,
    and raises their epoch."""

    def __init__(self) -> None:
        self.of_query: dict[SinkOptions, list[Number]] = {}


_known = _Numbers()


def _numbers_of_job(options: SinkOptions, *, streaming: bool) -> list[Number]:
    from pyspark_kohort.sending import Number, new_numbers

    if streaming and options.checkpoint is None:
        return []  # which query this is nobody knows: new ids for every micro-batch would fill the brokers' memory
    numbers = _known.of_query.pop(options, [])
    if numbers and numbers[0].epoch < _LAST_EPOCH:
        numbers = [Number(number.producer_id, number.epoch + 1) for number in numbers]
    else:
        cluster = Cluster(options.broker)
        try:
            numbers = new_numbers(cluster, _TASKS)
        finally:
            cluster.close()
    if streaming:
        _known.of_query[options] = numbers
    return numbers
