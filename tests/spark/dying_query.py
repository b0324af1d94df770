"""A program with one streaming query in whose second micro-batch something dies at a chosen step; tests run it.

    python -m tests.spark.dying_query '{"bootstrap": ..., "topic": ..., "home": ..., "sink": ..., "step": ...}'

It reads until nothing is left, and then ends with 0. Killed is its process group (driver, JVM and the reader's process;
Python workers end with their JVM), at the step `reading` by a task in the middle of its rows; at the steps `worker` and
`executor` one of these, likewise. At the step `broker` it waits, before it reads, for the test to have killed that.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyspark_kohort import session
from pyspark_kohort.sinks import exactly_once
from pyspark_kohort.sinks.parquet import ParquetSink
from pyspark_kohort.sinks.postgres import PostgresSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyspark_kohort.sinks.fence import Sink

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
DIES_IN_BATCH = 1
"""Of this program's run: the second one, so that there is a past."""


def die() -> None:
    os.killpg(0, signal.SIGKILL)


class DyingPostgres(PostgresSink):
    """Dies between the rows and the fences."""

    def _copy(self, connection: Any, rows: pa.Table) -> None:
        super()._copy(connection, rows)
        if dying.is_set():
            die()


dying = threading.Event()


def sink_of(asked: dict[str, str]) -> Sink:
    if asked["sink"] == "postgres":
        kind = DyingPostgres if asked["step"] == "copied" else PostgresSink
        return kind(asked["dsn"], asked["table"])
    return ParquetSink(Path(asked["home"], "out"))


def writer_of(asked: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """Guarantee of the sink: at least once by plain files, exactly once by a sink with fences."""
    if asked["sink"] == "files":
        return lambda frame, batch: frame.write.mode("append").parquet(f"{asked['home']}/out")
    return exactly_once(sink_of(asked), f"{asked['home']}/checkpoint")


def losing(what: str, home: str) -> Callable[[Any], Any]:
    """For a Python worker: the batch's first task that gets so far loses its worker, its executor, or the driver."""

    def lose(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.getLocalProperty("streaming.sql.batchId") == str(DIES_IN_BATCH) and first(Path(home, "lost")):
                daemon = os.getppid()
                jvm = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                if what == "reading":
                    os.killpg(os.getpgid(jvm), signal.SIGKILL)
                os.kill(os.getpid() if what == "worker" else jvm, signal.SIGKILL)

    return lose


def first(mark: Path) -> bool:
    """Return whether this is the first run."""
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    asked: dict[str, str] = json.loads(sys.argv[1])
    home, step = asked["home"], asked["step"]
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "512m"} | QUICK
    spark = session(asked.get("master", "local[2,3]"), "dying", settings)
    spark.sparkContext.setLogLevel("OFF")
    options = {
        "kafka.bootstrap.servers": asked["bootstrap"],
        "subscribe": asked["topic"],
        "kafka.group.id": asked["group"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "100",
        "checkpointLocation": f"{home}/checkpoint",
    } | json.loads(asked.get("options", "{}"))
    stream = spark.readStream.format("kohort").options(**options).load().select("value", "topic", "partition", "offset")
    if step in ("worker", "executor", "reading"):
        stream = stream.mapInArrow(losing(step, home), stream.schema)
    write = writer_of(asked)
    ran = 0

    def batch(frame: DataFrame, number: int) -> None:
        nonlocal ran
        now = ran == DIES_IN_BATCH
        ran += 1
        if now and step == "planned":
            die()
        if now and step == "copied":
            dying.set()
        if now and step == "broker":
            Path(home, "waiting").touch()
            wait_for(Path(home, "killed"))
        write(frame, number)
        if now and step == "written":
            die()
        if now and step == "marked":
            threading.Thread(target=die_when, args=(Path(home, "checkpoint/commits", str(number)),)).start()

    # Between two ticks the batch is marked as done, and the next one has not been requested yet.
    trigger: dict[str, Any] = {"processingTime": "1 second"} if step == "marked" else {"availableNow": True}
    query = stream.writeStream.foreachBatch(batch).option("checkpointLocation", f"{home}/checkpoint")
    query.trigger(**trigger).start().awaitTermination()
    spark.stop()


def die_when(there: Path) -> None:
    wait_for(there)
    die()


def wait_for(there: Path) -> None:
    while not there.exists():
        time.sleep(0.005)


if __name__ == "__main__":
    main()
