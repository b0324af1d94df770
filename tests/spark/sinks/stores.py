"""Every kind of sink on an empty store, and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

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


def counted(found: pa.Table) -> Counter[tuple[int, int]]:
    columns: dict[str, list[Any]] = found.select(["partition", "offset"]).to_pydict()
    return Counter(zip(columns["partition"], columns["offset"], strict=True))


def parquet(home: Path) -> Store:
    from pyspark_kohort.sinks.parquet import ParquetSink

    def read() -> Counter[tuple[int, int]]:
        return (
            counted(ds.dataset(home / "out", partitioning="hive").to_table()) if (home / "out").exists() else Counter()
        )

    return Store(lambda: ParquetSink(home / "out"), read)


def delta(home: Path) -> Store:
    from deltalake import DeltaTable

    from pyspark_kohort.sinks.delta import DeltaSink

    location = str(home / "delta")

    def read() -> Counter[tuple[int, int]]:
        if not DeltaTable.is_deltatable(location):
            return Counter()
        return counted(pa.table(DeltaTable(location).to_pyarrow_table()))

    return Store(lambda: DeltaSink(location), read)


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

    return Store(make, lambda: counted(catalog().load_table("flights.delays").scan().to_arrow()))


def postgres(dsn: str, table: str) -> Store:
    import psycopg

    from pyspark_kohort.sinks.postgres import PostgresSink

    with psycopg.connect(dsn) as connection:
        connection.execute(f'CREATE TABLE {table} (value bytea, topic text, partition int, "offset" bigint)'.encode())

    def read() -> Counter[tuple[int, int]]:
        with psycopg.connect(dsn) as connection:
            return Counter(connection.execute(f'SELECT partition, "offset" FROM {table}'.encode()).fetchall())

    return Store(lambda: PostgresSink(dsn, table), read)
