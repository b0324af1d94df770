"""Rows per second of the Spark source and sink, beside what Spark itself can do on the same machine in the same run.

    python bench/bench_spark.py [--rows 1000000] [--bootstrap HOST:PORT]
    python bench/run.py spark --peer    # beside spark-sql-kafka on Apache Kafka (bench/spark_versus.py)

Ratios travel between machines, rows per second do not. `range` is Spark's own engine making seven columns from nothing:
nobody is faster. `tuples` is a Python data source that yields tuples, as most do. All go to a noop sink on local[2].
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_kohort import session

sys.path.insert(0, str(Path(__file__).parents[1]))  # bench.spark_versus, and the tests' brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PARTITIONS = 8
VALUE = b"v" * 100
TUPLE_ROWS = 100_000
COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class TupleSource(DataSource):
    """What the same columns cost row by row."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return TupleReader()


class TupleReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        for n in range(TUPLE_ROWS // 2):
            yield b"%016d" % n, VALUE, "bench", partition.value, n, at, 0


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[str]:
    """The one given, or one of ours that ends with the run."""
    if bootstrap is not None:
        yield bootstrap
        return
    command = [str(Path(sys.executable).with_name("kohort")), "broker", "--listen", "127.0.0.1:0", "--memory"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("ready "))
            yield ready.split()[1]
        finally:
            process.terminate()


def fill(bootstrap: str, topic: str, rows: int) -> None:
    """100-byte values with 16-byte keys, in batches of some thousand records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result(10)
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 500_000, "log_level": 0}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000, "batch.num.messages": 5_000})
    for n in range(rows):
        while True:
            try:
                producer.produce(topic, key=b"%016d" % n, value=VALUE, partition=n // 5_000 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def rate(rows: int, run: Callable[[], object], times: int = 3, warm: int = 3) -> float:
    """Rows per second of the best run; the first ones start workers and warm up the JVM's compiler."""
    for _ in range(warm):
        run()
    best = 1e9
    for _ in range(times):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return rows / best


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def topic_sink(frame: DataFrame, bootstrap: str) -> None:
    writer = frame.write.format("kohort").option("kafka.bootstrap.servers", bootstrap).option("topic", "bench-sink")
    writer.mode("append").save()


def stream_rate(spark: SparkSession, options: dict[str, str], rows: int, home: Path) -> float:
    """Rows per second of the batches but the first, by Spark's own account of a batch's duration."""
    stream = spark.readStream.format("kohort").options(**options).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    warm = [(batch.numInputRows, batch.batchDuration) for batch in query.recentProgress if batch.numInputRows][1:]
    return 1000 * sum(rows for rows, _ in warm) / sum(spent for _, spent in warm)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records that are read and written")
    parser.add_argument("--bootstrap", help="a cluster to read from (default: a broker of ours, in memory)")
    parser.add_argument("--peer", action="store_true", help="the JVM connector and ours in turns, on Apache Kafka")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison with the JVM connector")
    parser.add_argument("--case", action="append", default=[], help="of that comparison only this; may be repeated")
    chosen = parser.parse_args()
    rows: int = chosen.rows
    if chosen.peer:
        from bench.spark_versus import CASES, compare

        if unknown := [case for case in chosen.case if case not in CASES]:
            parser.error(f"no case {unknown[0]}; there are {', '.join(CASES)}")
        compare(rows, chosen.rounds, chosen.case)
        return
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    with broker(chosen.bootstrap) as bootstrap, tempfile.TemporaryDirectory() as home:
        begin = time.perf_counter()
        fill(bootstrap, topic, rows)
        print(f"filled {rows:,} records in {time.perf_counter() - begin:.1f} s", flush=True)
        spark = session("local[2]", "bench", quiet)
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(TupleSource)
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        engine = spark.range(rows).selectExpr(
            "cast(cast(id as string) as binary) key",
            "cast(repeat('v', 100) as binary) value",
            "'bench' topic",
            "cast(id % 8 as int) partition",
            "id offset",
            "timestamp_millis(id) timestamp",
            "0 timestampType",
        )
        lines = engine.select("key", "value")
        kohort = spark.read.format("kohort").options(**options)
        streaming = {"kafka.group.id": "bench", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(rows // 4)}
        results = {
            "range, Spark's own engine": rate(rows, lambda: noop(engine)),
            "tuples, a Python source by rows": rate(TUPLE_ROWS, lambda: noop(spark.read.format("tuples").load()), 1, 1),
            "kohort, seven columns": rate(rows, lambda: noop(kohort.load())),
            "kohort, value only": rate(rows, lambda: noop(kohort.schema("value binary").load())),
            "kohort, a stream as a member": stream_rate(spark, options | streaming, rows, Path(home)),
            "kohort, written": rate(rows, lambda: topic_sink(lines, bootstrap), warm=1),
        }
        spark.stop()
    full = results["kohort, seven columns"]
    for name, found in results.items():
        print(f"{name:34} {found / 1e6:6.2f} M rows/s   {found / full:6.2f} x seven columns")


if __name__ == "__main__":
    main()
