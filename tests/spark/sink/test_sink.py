"""Real Spark writing to our broker: few, for each costs seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from pyspark_kohort import register
from tests.interop.process import until
from tests.spark.conftest import Topic, rows
from tests.spark.query import COMMITTED, read_once

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

NewTopic = Callable[[int], Topic]


def read(spark: SparkSession, topic: Topic) -> DataFrame:
    given = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name} | COMMITTED
    return spark.read.format("kohort").options(**given).load()


def test_a_table_is_written_and_read_again(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    table = spark.range(5_000).selectExpr("cast(id % 700 as string) key", "cast(id as string) value")
    table.write.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap).option("topic", topic.name).mode(
        "append"
    ).save()
    written = read(spark, topic).selectExpr("cast(key as string) key", "cast(value as string) value", "partition")
    assert written.select("key", "value").exceptAll(table).count() == 0
    assert written.count() == 5_000
    by_key = written.selectExpr("key", "partition").distinct().count()
    assert by_key == 700, "each key has one partition"


def test_a_table_is_written_in_transactions_or_not_at_all(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)

    def write(table: DataFrame) -> None:
        broker = {"kafka.bootstrap.servers": topic.bootstrap, "topic": topic.name, "kafka.transactional.id": topic.name}
        table.write.format("kohort").options(**broker).mode("append").save()

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "5000" in batch["value"].to_pylist():
                raise RuntimeError("the job fails")

    table = spark.range(0, 6_000, 1, 3).selectExpr("cast(id as string) value")
    with pytest.raises(PySparkException):
        write(table.mapInArrow(fails, table.schema))
    assert len(read_once(topic)) >= 2_000, "the other tasks have written"
    assert read(spark, topic).count() == 0
    write(table)
    until(20, "all rows are visible", lambda: read(spark, topic).count() >= 6_000)
    assert read(spark, topic).selectExpr("cast(value as string) value").exceptAll(table).count() == 0
    assert read(spark, topic).count() == 6_000


def test_a_thread_that_registers_writes_though_another_made_the_session(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic(1)

    def write() -> None:
        register(spark)
        table = spark.range(7).selectExpr("cast(id as string) value")
        table.write.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap).option(
            "topic", topic.name
        ).mode("append").save()

    with ThreadPoolExecutor(1) as beside:
        beside.submit(write).result()
    assert read(spark, topic).count() == 7


@pytest.mark.parametrize("transactions", [False, True])
def test_a_stream_copies_from_topic_to_topic(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path, transactions: bool
) -> None:
    source, target = new_topic(3), new_topic(2)
    source.produce(rows(600, 3))
    broker = {"kafka.bootstrap.servers": source.bootstrap}

    def run() -> None:
        given = broker | {"subscribe": source.name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "250"}
        stream = spark.readStream.format("kohort").options(**given).load().select("key", "value")
        sink = stream.writeStream.format("kohort").options(**broker, topic=target.name)
        if transactions:
            sink = sink.option("kafka.transactional.id", target.name)
        query = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert query.exception() is None

    run()
    source.produce(rows(100, 3))
    run()
    until(20, "all is visible", lambda: read(spark, target).count() >= 700)
    found = sorted((row.key, row.value) for row in read(spark, target).select("key", "value").collect())
    assert found == sorted((key or b"", value or b"") for key, value in source.written.values())
