"""From a query's checkpoint to a sink: who writes, and what becomes of it when the group's past is gone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql.datasource import InputPartition

from kohort.errors import ConfigError, KohortError
from pyspark_kohort.sinks import exactly_once
from tests.interop.process import until
from tests.spark.conftest import Member, Topic, rows
from tests.spark.query import Query, reader
from tests.spark.sinks import stores

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NewTopic = Callable[[int], Topic]


class Frame:
    """Methods of a micro-batch's DataFrame that a sink uses."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def toArrow(self) -> pa.Table:
        table = pa.Table.from_batches(self._batches)
        return table.select(["value", "topic", "partition", "offset"])


def run(query: Query, write: Callable[[Any, int], None]) -> None:
    """Plan a batch, or take the one that is logged, and write it as foreachBatch does."""
    assert planned(query)
    tasks = query.reader.partitions(query.offset(query.done), query.offset(query.done + 1))
    found = [batch for task in tasks for batch in read(query, task)]
    write(Frame(found), query.done)
    query._note("commits", query.done, "{}")
    query.done += 1


def planned(query: Query) -> bool:
    """Whether there is a batch to run, planned now or before."""
    return query.done < len(query.logged) or query.plan()


def read(query: Query, task: InputPartition) -> list[pa.RecordBatch]:
    return list(query.reader.read(task))


def checkpoint_at(home: Path) -> Path:
    home.mkdir()
    (home / "metadata").write_text(f'{{"id": "{home.name}"}}')  # as Spark does
    return home


def delete_group(topic: Topic, group: str) -> None:
    admin = AdminClient({"bootstrap.servers": topic.bootstrap})
    (deleted,) = admin.delete_consumer_groups([group]).values()
    deleted.result(10)


def test_a_deleted_and_recreated_group_loses_nothing_silently(
    new_topic: NewTopic, member: Member, group: str, tmp_path: Path
) -> None:
    topic, store = new_topic(1), stores.parquet(tmp_path)
    topic.produce(rows(10, 1))
    first = checkpoint_at(tmp_path / "first")
    query = Query(lambda: member(topic, checkpointLocation=str(first)), first)
    for _ in range(2):  # two stays: the second claim is above the first
        run(query, exactly_once(store.make(), str(first)))
        query.reader.stop()
        query.restart()
        topic.produce(rows(10, 1))
    query.reader.stop()
    delete_group(topic, group)
    second = checkpoint_at(tmp_path / "second")
    anew = Query(lambda: member(topic, checkpointLocation=str(second)), second)
    with pytest.raises(KohortError, match=rf"The sink has rows of {topic.name}-0 before offset 20, by group {group} "):
        run(anew, exactly_once(store.make(), str(second)))
    assert len(store.read()) == 20
    assert topic.lag(group) == 30, "what was not written is not committed"
    run(anew, exactly_once(store.make(), str(second), take_over=True))
    anew.drain()
    anew.reader.stop()
    assert store.read() == dict.fromkeys(topic.written, 1)
    assert topic.lag(group) == 0


def test_another_group_and_a_query_without_one_go_on_behind_the_first(
    new_topic: NewTopic, member: Member, tmp_path: Path
) -> None:
    topic, store = new_topic(1), stores.parquet(tmp_path)
    topic.produce(rows(10, 1))
    home = checkpoint_at(tmp_path / "home")
    write = exactly_once(store.make(), str(home))
    query = Query(lambda: member(topic, checkpointLocation=str(home)), home)
    run(query, write)
    query.reader.stop()
    for options in ({"kafka.group.id": "others"}, {"groupMode": "standalone"}):
        topic.produce(rows(10, 1))
        query._make = partial(member, topic, importOffsets="true", **options)
        query.restart()
        run(query, write)
        query.reader.stop()
    assert store.read() == dict.fromkeys(topic.written, 1)


def test_a_query_restarted_outside_a_group_gets_an_error(new_topic: NewTopic, tmp_path: Path) -> None:
    topic, store = new_topic(1), stores.parquet(tmp_path)
    topic.produce(rows(10, 1))
    # The first began at `latest`: what is before its fence is not all in the sink.
    first, second = (checkpoint_at(tmp_path / name) for name in ("first", "second"))
    late = Query(lambda: reader(topic, startingOffsets="latest"), first)
    assert not late.plan()
    topic.produce(rows(5, 1))
    run(late, exactly_once(store.make(), str(first)))
    late.reader.stop()
    early = Query(lambda: reader(topic), second)
    with pytest.raises(KohortError, match="before offset 15, by query first, and this query, query second, brings"):
        run(early, exactly_once(store.make(), str(second)))
    early.reader.stop()


def test_a_recreated_topic_is_written_from_its_beginning(
    new_topic: NewTopic, member: Member, group: str, tmp_path: Path
) -> None:
    topic, store = new_topic(1), stores.parquet(tmp_path)
    topic.produce(rows(10, 1))
    home = checkpoint_at(tmp_path / "home")
    options = {"failOnDataLoss": "false", "kafka.metadata.max.age.ms": "1", "checkpointLocation": str(home)}
    query = Query(lambda: member(topic, **options), home)
    write = exactly_once(store.make(), str(home))
    run(query, write)
    topic.delete()
    topic.create()
    topic.produce(rows(6, 1))
    until(20, "the group has given the new topic", lambda: planned(query))
    run(query, write)
    query.reader.stop()
    assert store.read() == {(0, offset): 1 + (offset < 6) for offset in range(10)}


def test_a_late_write_by_a_driver_that_was_taken_for_dead_repeats_nothing_of_a_topic_before(
    new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, store = new_topic(1), stores.parquet(tmp_path)
    topic.produce(rows(10, 1))
    home = checkpoint_at(tmp_path / "home")
    options = {"failOnDataLoss": "false", "kafka.metadata.max.age.ms": "1"}
    query = Query(lambda: reader(topic, **options), home)
    write = exactly_once(store.make(), str(home))
    held: list[Any] = []

    def first(frame: Any, batch_id: int) -> None:
        held.append(frame)
        write(frame, batch_id)

    run(query, first)
    topic.delete()
    topic.create()
    topic.produce(rows(6, 1))
    query.reader.stop()
    query.restart()
    until(20, "the query sees the new topic", lambda: planned(query))
    run(query, write)
    query.reader.stop()
    before = store.read()
    with pytest.raises(KohortError, match="of another topic of that name"):
        write(held[0], 0)
    assert store.read() == before == {(0, offset): 1 + (offset < 6) for offset in range(10)}


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    write = exactly_once(stores.parquet(tmp_path).make(), str(tmp_path))
    with pytest.raises(ConfigError, match="has no micro-batch 0: it is not this query's checkpoint"):
        write(Frame([pa.RecordBatch.from_pylist([{"value": b"", "topic": "t", "partition": 0, "offset": 0}])]), 0)  # type: ignore[arg-type]
