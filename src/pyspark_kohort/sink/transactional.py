"""Sink in transactions: a micro-batch, or a DataFrame, becomes visible as a whole or not at all.

Each task writes in a transaction of its own and leaves it open. The driver ends all of them. Their
transactional IDs are `NAME-TASK-ATTEMPT`. Spark counts the attempts of each stage attempt anew, so
a task takes the next number if that one has an open transaction: it does not fence another attempt
of the task, which may be the one that Spark has accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from pyspark_kohort import checkpoint, worker_caches
from pyspark_kohort.net import BlockingCluster
from pyspark_kohort.sink.coordinators import Coordinators
from pyspark_kohort.sink.decision_log import DecisionLog
from pyspark_kohort.sink.decisions import (
    Decision,
    Fate,
    Outcome,
    TaskOutput,
    Transaction,
    check_rows,
    duty,
    next_decision,
)
from pyspark_kohort.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

_ENDED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Results of EndTxn for a transaction that has ended already, in whatever way."""


@dataclass
class TaskDone(WriterCommitMessage):
    """Result that a task reports to the driver."""

    task: int
    output: TaskOutput | None
    """None if the rows are committed already."""
    after: tuple[int, int] | None = None
    """The newest decision when the task was planned."""


class TransactionEnd:
    """The driver's part: it ends the transactions of the tasks."""

    def __init__(self, options: SinkOptions) -> None:
        assert options.transactional_id is not None
        self._name = options.transactional_id
        self._cluster = BlockingCluster(options.broker)
        self._coordinators = Coordinators(self._cluster, options.delivery_timeout_ms)

    def __enter__(self) -> TransactionEnd:
        return self

    def __exit__(self, *failure: object) -> None:
        self._cluster.close()

    def check_open(self, transactions: Mapping[int, Transaction]) -> None:
        """Check that all transactions are open, before it is decided to commit them. Raises KohortError."""
        if ended := self._coordinators.not_open(transactions.values()):
            names = ", ".join(transaction.transactional_id for transaction in ended[:5])
            raise KohortError(
                f"No transaction is committed now, as {len(ended)} of {len(transactions)} have ended: {names}. They"
                " took longer than kafka.transaction.timeout.ms, or another query or a newer run of this one uses the"
                f" kafka.transactional.id {self._name}."
            )

    def commit(self, transactions: Mapping[int, Transaction]) -> dict[int, Outcome]:
        """Commit the transactions; return how each of them ended. Raises KohortError if that is unknown."""
        codes = self._coordinators.end(transactions.values(), commit=True)
        outcomes = {}
        for task, transaction in transactions.items():
            code = codes[transaction.transactional_id]
            if code is ErrorCode.NONE:
                outcomes[task] = Outcome.COMMITTED
            elif code in _ENDED:
                outcomes[task] = self._coordinators.outcome(transaction)
            else:
                raise KafkaError(code, f"{transaction.transactional_id}: {code.sentence}")
        return outcomes

    def abort_others(self) -> None:
        """Abort all open transactions of the sink: those of failed attempts, of earlier runs, and of lost executors.

        Readers of committed records would wait for them. Nobody commits them, so a broker that is down
        only delays this.
        """
        try:
            if open_ids := self._coordinators.open_ids(self._name):
                _log.info("aborting open transactions of the sink: %s", ", ".join(open_ids))
                self._coordinators.begin(open_ids, _FENCE_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.warning(
                "Transactions of failed tasks may stay open until the next micro-batch or kafka.transaction.timeout.ms,"
                " and readers with read_committed wait for them: %s",
                error,
            )


_FENCE_MS = 60_000
"""Transaction timeout of IDs that only fence."""


def write_task(
    batches: Iterator[pa.RecordBatch],
    options: SinkOptions,
    last: Decision | None,
    *,
    batch: int,
    task: int,
    attempt: int,
) -> TaskDone:
    """Write the rows of one task in a transaction, or drop them if they are committed already."""
    from pyspark_kohort.sink.writing import drop_rows, write_in_transaction

    its_duty = duty(last, batch, task)
    if not its_duty.writes:
        check_rows(its_duty, last, task, drop_rows(batches, options))
        return TaskDone(task, None, _name_of(last))
    output = write_in_transaction(batches, options, task=task, attempt=attempt, seed=task + batch)
    check_rows(its_duty, last, task, output.rows)
    return TaskDone(task, output, _name_of(last))


class TransactionalWriter:
    """Writer of rows in transactions. Spark pickles it for its executors, and only the copies write."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def _write(self, batches: Iterator[pa.RecordBatch], last: Decision | None) -> TaskDone:
        worker_caches.settle()
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        task, attempt = context.partitionId(), context.attemptNumber()
        return write_task(batches, self._options, last, batch=batch, task=task, attempt=attempt)


class TransactionalStreamWriter(TransactionalWriter, DataSourceStreamArrowWriter):
    """Writer for a micro-batch of a streaming query."""

    _last: Decision | None = None
    _prepared = False

    def __getstate__(self) -> dict[str, Any]:
        if not self._prepared:
            self._last = self._prepare()
            self._prepared = True
        return {"_options": self._options, "_last": self._last}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """Write the rows of one task, on an executor."""
        return self._write(iterator, self._last)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Decide to commit the micro-batch, and commit it."""
        log = self._log()
        last = log.last()
        done = _by_task(messages)
        if any(message.after != _name_of(last) for message in done.values()) or (last and last.fate is Fate.OPEN):
            raise KohortError(
                f"Another run of this query has decided about a micro-batch while this one ran {batchId}: two queries"
                " use one checkpoint, or a driver that was taken for dead continues. This run commits nothing."
            )
        with TransactionEnd(self._options) as ending:
            written = {task: message.output for task, message in done.items() if message.output is not None}
            decision = next_decision(last, batchId, done.keys(), written)
            if decision is not None:
                ending.check_open(decision.to_end)
                log.decide(decision)
                _carry_out(decision, log, ending)
            ending.abort_others()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of all tasks."""
        last = self._log().last()
        if last is not None and last.fate is Fate.OPEN:
            return  # the commit was decided and then failed: the next run carries it out
        with TransactionEnd(self._options) as ending:
            ending.abort_others()

    def _prepare(self) -> Decision | None:
        """Carry out the last decision before anything is written, and abort what earlier runs have left open."""
        log = self._log()
        last = log.last()
        with TransactionEnd(self._options) as ending:
            if last is not None and last.fate is Fate.OPEN:
                last = _ended(last, log, ending)
            ending.abort_others()
        if last is not None and last.fate is not Fate.COMMITTED:
            _log.warning("micro-batch %d is written again: %s", last.batch, last.fate.value)
        return last

    def _log(self) -> DecisionLog:
        return DecisionLog(_directory(self._options))


class TransactionalBatchWriter(TransactionalWriter, DataSourceArrowWriter):
    """Writer for a DataFrame of a batch query."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # not rows
        """Write the rows of one task, on an executor."""
        return self._write(iterator, None)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit all rows."""
        done = _by_task(messages)
        transactions = {
            task: message.output.transaction
            for task, message in done.items()
            if message.output is not None and message.output.transaction is not None
        }
        with TransactionEnd(self._options) as ending:
            ending.check_open(transactions)
            outcomes = ending.commit(transactions)
            ending.abort_others()
        if lost := [task for task, outcome in outcomes.items() if outcome is Outcome.ABORTED]:
            raise KohortError(
                f"The rows of {len(lost)} of {len(outcomes)} tasks are not written: their transactions expired before"
                " they could be committed. The others are."
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of all tasks."""
        with TransactionEnd(self._options) as ending:
            ending.abort_others()


def _carry_out(decision: Decision, log: DecisionLog, ending: TransactionEnd) -> None:
    """Commit the transactions of a decision. Raises KohortError if not all of them are committed."""
    ended = _ended(decision, log, ending)
    if ended.fate is not Fate.COMMITTED:
        raise KohortError(f"Micro-batch {decision.batch}: {ended.fate.value}. Restart the query, which completes it.")


def _ended(decision: Decision, log: DecisionLog, ending: TransactionEnd) -> Decision:
    ended = decision.ended(ending.commit(decision.to_end))
    log.end(ended)
    return ended


def _name_of(decision: Decision | None) -> tuple[int, int] | None:
    return None if decision is None else (decision.batch, decision.number)


def _by_task(messages: Sequence[WriterCommitMessage | None]) -> dict[int, TaskDone]:
    done = {}
    for message in messages:
        assert isinstance(message, TaskDone), "Spark commits what not all tasks have written"
        done[message.task] = message
    return done


def _directory(options: SinkOptions) -> Path:
    """Return the checkpoint's directory. Raises ConfigError."""
    directory = checkpoint.directory(options.checkpoint)
    if directory is None:
        raise ConfigError(
            "kafka.transactional.id needs the option checkpointLocation of the query, on the driver's own file system"
            " or on one that is mounted there: the sink keeps its decisions in it."
        )
    checkpoint.query_id(directory)
    return directory
