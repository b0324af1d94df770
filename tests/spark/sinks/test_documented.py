"""The examples of docs/spark.md, unchanged apart from names and addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_kohort.sinks.postgres import PostgresSink
from tests.interop.process import until
from tests.spark.conftest import Topic, rows
from tests.spark.sinks.stores import Store
from tests.test_documents import block_with

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def topic(bootstrap: str) -> Topic:
    made = Topic(bootstrap, 3)
    made.produce(rows(300, 3))
    return made


class Documented:
    """Runs blocks one after the other in one namespace, with our names for those of the documents."""

    def __init__(self, topic: Topic, home: Path, **others: str) -> None:
        self.names = {
            "localhost:9092": topic.bootstrap,
            '"subscribe", "flights"': f'"subscribe", "{topic.name}"',
            '"kafka.group.id", "delays"': f'"kafka.group.id", "{topic.name}"',
            "/data/": f"{home}/",
        } | others
        self.space: dict[str, Any] = {}

    def run(self, text: str, until: str = "") -> None:
        """The block that has that text, or its part up to a line."""
        block = block_with("docs/spark.md", "python", text)
        block = block[: block.index(until)] if until else block
        for theirs, ours in self.names.items():
            block = block.replace(theirs, ours)
        exec(compile(block, "docs/spark.md", "exec"), self.space)


def test_the_first_example_writes_what_the_group_has_not_read(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    example = Documented(topic, tmp_path)
    example.run("import pyspark_kohort")
    assert example.space["spark"] is spark
    query = example.space["query"]
    assert query.awaitTermination(120)
    assert query.exception() is None
    found = spark.read.parquet(f"{tmp_path}/delays").select("partition", "offset").collect()
    assert Counter(map(tuple, found)) == dict.fromkeys(topic.written, 1)
    assert topic.lag(topic.name) == 0


def test_the_example_of_a_sink_writes_each_record_once(
    spark: SparkSession, topic: Topic, tmp_path: Path, store: Store
) -> None:
    # Whichever sink it is: the line that makes one is the only one that differs.
    names = {'PostgresSink("host=localhost dbname=flights", "delays")': "ours", "cast(value as string) value": "value"}
    example = Documented(topic, tmp_path, **names)
    example.run("import pyspark_kohort", until="query = (")
    example.space["ours"] = store.make()
    example.run("from pyspark_kohort.sinks import exactly_once")
    query = example.space["query"]
    try:
        until(120, "all records are in the sink", lambda: topic.lag(topic.name) == 0 or query.exception() is not None)
        assert query.exception() is None
    finally:
        query.stop()
    assert store.read() == dict.fromkeys(topic.written, 1)


def test_the_documented_sink_is_created(dsn: str) -> None:
    block = block_with("docs/spark.md", "python", "from pyspark_kohort.sinks import exactly_once")
    lines = [line for line in block.splitlines() if line.startswith(("from", "sink ="))]
    space: dict[str, Any] = {}
    exec(compile("\n".join(lines).replace("host=localhost dbname=flights", dsn), "docs/spark.md", "exec"), space)
    assert isinstance(space["sink"], PostgresSink)


def test_the_example_of_writing_fills_a_topic(spark: SparkSession, new_topic: Callable[[int], Topic]) -> None:
    target = new_topic(2)
    names = {'"topic", "delays"': f'"topic", "{target.name}"'}
    example = Documented(target, Path("unused"), **names)
    example.space["df"] = spark.sql("SELECT 'late' AS key, cast(id AS string) AS value FROM range(50)")
    example.run('df.select("key", "value").write')
    given = {"kafka.bootstrap.servers": target.bootstrap, "subscribe": target.name}
    found = spark.read.format("kohort").options(**given).load().selectExpr("cast(value as string) value").collect()
    assert sorted(int(row.value) for row in found) == list(range(50))


def test_the_example_of_transactions_copies_each_record_once(
    spark: SparkSession, topic: Topic, tmp_path: Path, new_topic: Callable[[int], Topic]
) -> None:
    target = new_topic(2)
    names = {'"topic": "sums"': f'"topic": "{target.name}"', "sums-of-delays": target.name}
    example = Documented(topic, tmp_path, **names)
    example.run("import pyspark_kohort", until="query = (")
    example.space["sums"] = example.space["flights"].select("key", "value")
    example.run("sums.writeStream")
    [query] = spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    given = {"kafka.bootstrap.servers": target.bootstrap, "subscribe": target.name}
    committed = {"kafka.isolation.level": "read_committed"}
    copied = spark.read.format("kohort").options(**given, **committed).load().select("key", "value").collect()
    assert Counter((row.key, row.value) for row in copied) == Counter(topic.written.values())
