"""A program that copies a topic through a stateful query in transactions, and dies at a chosen step; tests run it.

    python -m tests.spark.dying_copy '{"bootstrap": ..., "topic": ..., "target": ..., "home": ..., "step": ...}'

It reads until nothing is left, and then ends with 0. In the micro-batch `batch` (default: 1), its process group is
killed (driver, JVM, reader; Python workers end with their JVM): at the step `reading` by a task in the middle of its
rows, at `decided`, `ended` and `committed` by the sink in the driver. At the steps `worker` and `executor` one of these
dies. At the step `broker` it waits, when the tasks are done, for the test to have killed that. At the step `never` it
kills nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_kohort import DefaultSource, session
from pyspark_kohort.sink import TransactionalStreamWriter, parse_sink_options, transactional
from pyspark_kohort.sink.decisions import Outcome, Transaction
from tests.spark.dying_query import QUICK, first, losing, wait_for


def die() -> NoReturn:
    """For a Python worker of the driver: kill the driver, its JVM, and the reader's process."""
    daemon = os.getppid()
    jvm = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.killpg(os.getpgid(jvm), signal.SIGKILL)
    signal.pause()
    raise AssertionError


class DyingWriter(TransactionalStreamWriter):
    """Dies at the step `step` of the commit."""

    step: str
    home: str
    batch: int

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        if batchId != self.batch or not first(Path(self.home, f"at-{self.step}")):
            super().commit(messages, batchId)
            return
        step = self.step
        if step == "broker":
            Path(self.home, "waiting").touch()
            wait_for(Path(self.home, "killed"))

        class DyingEnd(transactional.TransactionEnd):
            def commit(self, transactions: Mapping[int, Transaction]) -> dict[int, Outcome]:
                if step == "decided":
                    die()
                if step == "ended":
                    assert len(transactions) > 1
                    super().commit(dict(list(transactions.items())[:1]))
                    die()
                return super().commit(transactions)

        kept = transactional.TransactionEnd
        transactional.TransactionEnd = DyingEnd  # type: ignore[misc]
        try:
            super().commit(messages, batchId)
        finally:
            transactional.TransactionEnd = kept  # type: ignore[misc]
        if step == "committed":
            die()


class DyingSource(DefaultSource):
    """The sink under another name."""

    step: str
    home: str
    batch: int

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        writer = DyingWriter(parse_sink_options(dict(self.options)))
        writer.step, writer.home, writer.batch = self.step, self.home, self.batch
        return writer


def main() -> None:
    asked: dict[str, str] = json.loads(sys.argv[1])
    home, step = asked["home"], asked["step"]
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m"} | QUICK
    settings |= {"spark.sql.shuffle.partitions": "3"}
    spark = session(asked.get("master", "local[2,3]"), "dying", settings)
    spark.sparkContext.setLogLevel("OFF")
    chosen = {"step": step, "home": home, "batch": int(asked.get("batch", "1"))}
    spark.dataSource.register(type("DyingSource", (DyingSource,), chosen))
    broker = {"kafka.bootstrap.servers": asked["bootstrap"]}
    given = {
        "subscribe": asked["topic"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": asked.get("per_batch", "300"),
    }
    stream = spark.readStream.format("kohort").options(**broker, **given).load().select("key", "value")
    once = stream.dropDuplicates(["value"])
    if step in ("worker", "executor", "reading"):
        once = once.mapInArrow(losing(step, home), once.schema)
    sink = once.writeStream.format("dying").options(**broker, topic=asked["target"])
    sink = sink.options(**{"kafka.transactional.id": asked["target"], "checkpointLocation": f"{home}/checkpoint"})
    sink.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
