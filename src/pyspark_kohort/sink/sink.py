"""`df.write.format("kohort")` and `df.writeStream.format("kohort")`: writers of rows to a topic, task by task.

A row is in the topic when its task is done, also if other tasks fail later: `transactional` writes
in transactions. Records have producer ids and sequence numbers (KIP-98), and Spark's driver
allocates the ids. An attempt that follows a failed one asks the broker how many records the failed
attempt wrote under the same id, and continues after them. So a retry repeats nothing, provided that
the query computes the same rows in the same order again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.errors import KohortError
from pyspark_kohort import checkpoint, worker_caches
from pyspark_kohort.net import BlockingCluster
from pyspark_kohort.sink.decision_log import DecisionLog
from pyspark_kohort.sink.decisions import Fate
from pyspark_kohort.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.requests import ProducerId

_TASKS = 200
"""Number of tasks that get a producer id from the driver; Spark does not report how many tasks there will be.

Further tasks obtain ids themselves; after a failure, a new attempt of such a task repeats what the
failed one wrote.
"""
_LAST_EPOCH = 2**15 - 1


@dataclass
class TaskResult(WriterCommitMessage):
    """Result that a task reports to the driver."""

    rows: int


class TopicWriter:
    """Writer of rows. Spark pickles it for its executors, and only the copies write: so pickling allocates the ids."""

    _streaming = False

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._numbers: Sequence[ProducerId] = ()

    def __getstate__(self) -> dict[str, Any]:
        if self._options.idempotent and not self._numbers:
            self._numbers = _numbers_of_job(self._options, streaming=self._streaming)
        return {"_options": self._options, "_numbers": self._numbers}

    def _write(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        from pyspark_kohort.sink.writing import write_rows

        worker_caches.settle()
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        number = self._numbers[task] if task < len(self._numbers) else None
        batch_id = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        retried = number is not None and context.attemptNumber() > 0
        return TaskResult(write_rows(batches, self._options, number, seed=task + batch_id, resume=retried))


class BatchWriter(TopicWriter, DataSourceArrowWriter):
    """Writer for a DataFrame of a batch query."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """Write the rows of one task, on an executor."""
        return self._write(iterator)


class StreamWriter(TopicWriter, DataSourceStreamArrowWriter):
    """Writer for a micro-batch of a streaming query."""

    _streaming = True

    def __getstate__(self) -> dict[str, Any]:
        _check_decided(self._options)
        return super().__getstate__()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """Write the rows of one task, on an executor."""
        return self._write(iterator)


def _check_decided(options: SinkOptions) -> None:
    """Check that no micro-batch is half done by runs of the query that wrote in transactions. Raises KohortError."""
    directory = checkpoint.directory(options.checkpoint)
    last = None if directory is None else DecisionLog(directory).last()
    if directory is None or last is None or last.fate is Fate.ABORTED:
        return
    done = checkpoint.newest_done(directory)
    if last.fate is not Fate.COMMITTED or done is None or done < last.batch:
        raise KohortError(
            f"Micro-batch {last.batch} is written in transactions, in part or as a whole, and Spark would write it"
            " again. Start the query with its option kafka.transactional.id until this micro-batch is done; then you"
            " may remove the option."
        )


class _Numbers(threading.local):
    """Producer ids of each query of this thread.

    Python workers are reused from micro-batch to micro-batch. Each query keeps its ids, which
    brokers remember for a day, and increments their epoch.
    """

    def __init__(self) -> None:
        self.of_query: dict[SinkOptions, list[ProducerId]] = {}


_known = _Numbers()


def _numbers_of_job(options: SinkOptions, *, streaming: bool) -> list[ProducerId]:
    from kohort.requests import ProducerId
    from pyspark_kohort.sink.sending import new_numbers

    if streaming and options.checkpoint is None:
        return []  # the query is unknown: new ids for every micro-batch would fill the brokers' memory
    numbers = _known.of_query.pop(options, [])
    if numbers and numbers[0].epoch < _LAST_EPOCH:
        numbers = [ProducerId(number.id, number.epoch + 1) for number in numbers]
    else:
        cluster = BlockingCluster(options.broker)
        try:
            numbers = new_numbers(cluster, _TASKS)
        finally:
            cluster.close()
    if streaming:
        _known.of_query[options] = numbers
    return numbers
