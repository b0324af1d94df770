"""Real queries on a real Spark against our broker: few, for each costs seconds."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from pyspark_kohort import register
from pyspark_kohort.columns import COLUMNS
from pyspark_kohort.data_source import with_slots
from pyspark_kohort.spark_session import ON_ONE_HOST, SETTINGS, settings_of
from tests.interop.process import until
from tests.spark.conftest import Topic, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

NewTopic = Callable[[int], Topic]


def source(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name}
    return spark.read.format("kohort").options(**(given | options)).load()


def start(
    spark: SparkSession, topic: Topic, group: str, home: Path, *, available_now: bool, **options: str
) -> StreamingQuery:
    """A query of the group into Parquet files below `home`."""
    given = {
        "kafka.bootstrap.servers": topic.bootstrap,
        "subscribe": topic.name,
        "kafka.group.id": group,
        "kafka.heartbeat.interval.ms": "200",
        "startingOffsets": "earliest",
        "checkpointLocation": str(home / "checkpoint"),
    }
    stream = spark.readStream.format("kohort").options(**given, **options).load()
    writer = stream.writeStream.format("parquet").option("path", str(home / "out"))
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="100 milliseconds")
    return writer.start()


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(120)
    assert query.exception() is None


def counted(spark: SparkSession, *homes: Path) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is in the outputs."""
    found: Counter[tuple[int, int]] = Counter()
    for home in homes:
        out = spark.read.schema("partition int, offset bigint").parquet(str(home / "out"))
        found.update((row.partition, row.offset) for row in out.collect())
    return found


def test_a_batch_reads_what_was_produced(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    topic.produce([*rows(500, 3), (0, None, b"no key"), (1, b"tombstone", None)])
    frame = source(spark, topic, includeHeaders="true")
    assert frame.columns == [*COLUMNS.names, "headers"]
    found = {
        (row.partition, row.offset): (row.key and bytes(row.key), row.value and bytes(row.value))
        for row in frame.collect()
    }
    assert found == topic.written
    facts = frame.selectExpr("topic", "cast(timestamp as string)", "timestampType", "headers[0].key").distinct()
    assert [tuple(row) for row in facts.collect()] == [(topic.name, "2023-11-14 22:13:20", 0, "n")]
    narrow = spark.read.format("kohort").schema("offset bigint, value binary")
    narrow = narrow.option("kafka.bootstrap.servers", topic.bootstrap).option("subscribe", topic.name)
    ranged = narrow.option("startingOffsets", f'{{"{topic.name}": {{"0": 10, "1": -1, "2": -2}}}}').option(
        "endingOffsets", f'{{"{topic.name}": {{"0": 15, "1": -1, "2": 5}}}}'
    )
    assert sorted(row.offset for row in ranged.load().collect()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]


def test_a_worker_imports_pyspark_compiled(spark: SparkSession) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(look, "file string").collect()
    assert Path(found.file).is_file(), "inside of a zip file, where nothing is compiled"


def test_a_session_on_one_host_writes_checkpoints_without_programs_that_ask_for_links(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Spark ignores the names of settings that it does not know.
    jvm: Any = spark._jvm
    managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    hadoop: Any = spark._jsparkSession.sessionState().newHadoopConf()
    manager = managers.create(jvm.org.apache.hadoop.fs.Path(str(tmp_path)), hadoop)
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"


@pytest.mark.parametrize(
    ("master", "is_one_process"),
    [("local", True), ("local[2]", True), ("local-cluster[2,1,1024]", False), ("yarn", False), (None, False)],
)
def test_settings_for_one_process_are_for_no_cluster_and_the_users_override_them(
    master: str | None, is_one_process: bool
) -> None:
    (key,) = ON_ONE_HOST
    assert (key in settings_of(master, {})) == is_one_process
    assert settings_of(master, {key: "theirs"})[key] == "theirs"
    assert settings_of(master, {key: "theirs"}).keys() >= SETTINGS.keys()


def test_a_batch_has_as_many_tasks_as_spark_runs_at_once(spark: SparkSession, new_topic: NewTopic) -> None:
    # The driver's host may have fewer cores than the cluster, and more.
    topic = new_topic(8)
    made = spark.range(160_000).selectExpr("cast(id AS string) AS value", "cast(id % 8 AS int) AS partition")
    given = {"kafka.bootstrap.servers": topic.bootstrap}
    made.write.format("kohort").options(topic=topic.name, **given).mode("append").save()
    frames = spark.read.format("kohort").options(subscribe=topic.name, **given)
    try:
        for slots in (1, 5):
            spark.dataSource.register(with_slots(slots))
            assert frames.load().rdd.getNumPartitions() == slots
    finally:
        register(spark)
    assert frames.load().rdd.getNumPartitions() == spark.sparkContext.defaultParallelism


def test_a_wrong_option_is_one_sentence(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    with pytest.raises(Exception, match=r"Did you mean maxOffsetsPerTrigger\?"):
        source(spark, topic, maxOffsetPerTrigger="5").count()
    with pytest.raises(Exception, match="Topic nowhere does not exist"):
        source(spark, topic, subscribe="nowhere").count()


def test_available_now_ends_without_lag_and_a_restart_continues(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, group = new_topic(5), "available-now"
    topic.produce(rows(2000, 4))  # the fifth partition stays empty
    for _ in range(2):
        finish(start(spark, topic, group, tmp_path, available_now=True, maxOffsetsPerTrigger="900"))
        assert counted(spark, tmp_path) == dict.fromkeys(topic.written, 1)
        assert topic.lag(group) == 0
        assert not topic.members(group), "it did not leave its group"
        topic.produce(rows(700, 5))
    # Another checkpoint and the same group: it continues at the group's offsets.
    other = tmp_path / "other"
    finish(start(spark, topic, group, other, available_now=True))
    assert counted(spark, tmp_path, other) == dict.fromkeys(topic.written, 1)
    assert sum(counted(spark, other).values()) == 700


def test_a_query_of_spark_sql_kafka_continues_as_a_member(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, group = new_topic(2), f"taken-over-{uuid.uuid4().hex[:8]}"
    topic.produce(rows(20, 2))
    left_by_theirs(tmp_path / "checkpoint", f'{{"{topic.name}":{{"0":4,"1":7}}}}')
    found: Counter[tuple[int, int]] = Counter()

    def count(frame: DataFrame, batch: int) -> None:
        found.update((row.partition, row.offset) for row in frame.select("partition", "offset").collect())

    given = {"kafka.bootstrap.servers": topic.bootstrap, "subscribe": topic.name, "kafka.group.id": group}
    stream = spark.readStream.format("kohort").options(**given).load()
    writer = stream.writeStream.foreachBatch(count).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    finish(query)
    assert found == dict.fromkeys({at for at in topic.written if at[1] >= (4, 7)[at[0]]}, 1)
    assert topic.lag(group) == 0
    told = query.lastProgress
    assert told is not None
    ends = json.loads(told["sources"][0]["latestOffset"])
    assert (ends["@lag"], ends["@member"]["group"]) == (0, group)


def left_by_theirs(checkpoint: Path, offset: str) -> None:
    """Write the checkpoint of a query with the JVM connector after its first batch."""
    files = {
        "metadata": json.dumps({"id": str(uuid.uuid4())}),
        "offsets/0": f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1790000000000,"conf":{{}}}}\n{offset}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f"0v1\n{offset}",
    }
    for name, text in files.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)


def test_two_queries_share_a_group(spark: SparkSession, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, group = new_topic(6), "shared"
    first, second = tmp_path / "first", tmp_path / "second"
    topic.produce(rows(600, 6))
    a = start(spark, topic, group, first, available_now=False)
    until(60, "the first query reads all", lambda: topic.lag(group) == 0)
    b = start(spark, topic, group, second, available_now=False)
    until(60, "both are members", lambda: len(topic.members(group)) == 2)

    def moved() -> bool:
        topic.produce(rows(60, 6))
        return (second / "out" / "_spark_metadata").exists()

    until(60, "the second query has records", moved)
    topic.produce(rows(300, 6))
    until(60, "both together read all", lambda: topic.lag(group) == 0)
    a.stop()
    topic.produce(rows(300, 6))
    until(60, "the second query takes over", lambda: topic.lag(group) == 0)
    b.stop()
    until(10, "both have left", lambda: not topic.members(group))
    assert counted(spark, first, second) == dict.fromkeys(topic.written, 1)
    assert counted(spark, second).keys() >= {key for key in topic.written if key[0] == 0} - counted(spark, first).keys()
