"""Every kind of sink on an empty store, and what is in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Sink

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)
_FIELDS: list[pa.Field[Any]] = [
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
]
SCHEMA = pa.schema(_FIELDS)


def rows(*ranges: tuple[TopicPartition, int, int]) -> pa.Table:
    """Rows of these partitions, each from the first offset up to, not including, the second."""
    names = [(tp, offset) for tp, first, until in ranges for offset in range(first, until)]
    columns: list[pa.Array[Any]] = [
        pa.array([b"%d" % offset for _, offset in names], pa.binary()),
        pa.array([tp.topic for tp, _ in names], pa.string()),
        pa.array([tp.partition for tp, _ in names], pa.int32()),
        pa.array([offset for _, offset in names], pa.int64()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Store:
    """`make` opens it as another process would; `read` counts each (partition, offset) in it."""

    make: Callable[[], Sink]
    read: Callable[[], Counter[tuple[int, int]]]
    fence_of_0_1: Callable[[TopicPartition, int, int], None]
    """Leave the fence that Kohort 0.1 left, with that next offset and epoch; no rows."""


def counted(found: pa.Table) -> Counter[tuple[int, int]]:
    columns: dict[str, list[Any]] = found.select(["partition", "offset"]).to_pydict()
    return Counter(zip(columns["partition"], columns["offset"], strict=True))


def parquet(home: Path) -> Store:
    from pyspark_kohort.sinks.parquet import ParquetSink

    def read() -> Counter[tuple[int, int]]:
        return (
            counted(ds.dataset(home / "out", partitioning="hive").to_table()) if (home / "out").exists() else Counter()
        )

    def fence(tp: TopicPartition, end: int, epoch: int) -> None:
        folder = home / "out" / f"topic={tp.topic}" / f"partition={tp.partition}"
        folder.mkdir(parents=True)
        footer = json.dumps({"next": end, "epoch": epoch}).encode()
        empty = SCHEMA.empty_table().drop_columns(["topic", "partition"]).replace_schema_metadata({b"kohort": footer})
        pq.write_table(empty, folder / f"{0:020}.parquet")

    return Store(lambda: ParquetSink(home / "out"), read, fence)


def delta(home: Path) -> Store:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    from pyspark_kohort.sinks.delta import DeltaSink

    location = str(home / "delta")

    def read() -> Counter[tuple[int, int]]:
        if not DeltaTable.is_deltatable(location):
            return Counter()
        return counted(pa.table(DeltaTable(location).to_pyarrow_table()))

    def fence(tp: TopicPartition, end: int, epoch: int) -> None:
        moved = [
            Transaction(f"kohort/{tp.topic}/{tp.partition}/{what}", number)
            for what, number in (("next", end), ("epoch", epoch))
        ]
        write_deltalake(location, SCHEMA.empty_table(), commit_properties=CommitProperties(app_transactions=moved))

    return Store(lambda: DeltaSink(location), read, fence)


def iceberg(home: Path) -> Store:
    from pyiceberg.catalog.sql import SqlCatalog

    from pyspark_kohort.sinks.iceberg import IcebergSink

    def catalog() -> SqlCatalog:
        return SqlCatalog("tests", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")

    catalog().create_namespace("flights")
    catalog().create_table("flights.delays", SCHEMA)

    def make() -> Sink:
        mine = catalog()
        return IcebergSink(lambda: mine.load_table("flights.delays"))

    def fence(tp: TopicPartition, end: int, epoch: int) -> None:
        with catalog().load_table("flights.delays").transaction() as transaction:
            transaction.set_properties({f"kohort.{tp.topic}.{tp.partition}": f"{end}:{epoch}"})

    return Store(make, lambda: counted(catalog().load_table("flights.delays").scan().to_arrow()), fence)


_FENCES_OF_0_1 = """
CREATE TABLE kohort_fences (
    sink text, topic text, partition int, next bigint NOT NULL, epoch bigint NOT NULL,
    PRIMARY KEY (sink, topic, partition)
)
"""


def in_schema(server: str, schema: str) -> str:
    """Where names without a schema are in that one."""
    return f"{server} options='-csearch_path={schema}'"


def postgres(server: str, table: str) -> Store:
    """With a schema of its own, for the table of fences."""
    import psycopg

    dsn = in_schema(server, table)
    with psycopg.connect(server) as connection:
        connection.execute(f"CREATE SCHEMA {table}".encode())

    from pyspark_kohort.sinks.postgres import PostgresSink

    with psycopg.connect(dsn) as connection:
        connection.execute(f'CREATE TABLE {table} (value bytea, topic text, partition int, "offset" bigint)'.encode())

    def read() -> Counter[tuple[int, int]]:
        with psycopg.connect(dsn) as connection:
            return Counter(connection.execute(f'SELECT partition, "offset" FROM {table}'.encode()).fetchall())

    def fence(tp: TopicPartition, end: int, epoch: int) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute(_FENCES_OF_0_1)
            connection.execute("INSERT INTO kohort_fences VALUES (%s, %s, %s, %s, %s)", (table, *tp, end, epoch))

    return Store(lambda: PostgresSink(dsn, table), read, fence)
