"""Exactly-once sink for a PostgreSQL table: one transaction writes rows and fences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, Writers, admitted, partitions_of

_FENCES = """
CREATE TABLE IF NOT EXISTS kohort_fences (
    sink text, topic text, partition int, next bigint NOT NULL, epoch bigint NOT NULL, owner text, topic_id text,
    PRIMARY KEY (sink, topic, partition)
)
"""
_FENCES_OF_0_1 = "ALTER TABLE kohort_fences ADD COLUMN IF NOT EXISTS owner text, ADD COLUMN IF NOT EXISTS topic_id text"
_MAKE = "INSERT INTO kohort_fences VALUES (%s, %s, %s, 0, 0) ON CONFLICT DO NOTHING"
_LOCK = """
SELECT topic, partition, next, epoch, owner, topic_id FROM kohort_fences
WHERE sink = %s AND (topic, partition) IN (SELECT * FROM unnest(%s::text[], %s::int[]))
ORDER BY topic, partition FOR UPDATE
"""
_MOVE = """
UPDATE kohort_fences SET next = %s, epoch = %s, owner = %s, topic_id = %s
WHERE sink = %s AND topic = %s AND partition = %s
"""


class PostgresSink:
    """Sink for the columns of the rows' names. The fences are in `kohort_fences` under `name` (default: the table's).

    After the fence of a partition is deleted, the partition can be written from any offset again.
    This is useful after a reset of the group's offsets.
    """

    def __init__(self, dsn: str, table: str, name: str | None = None) -> None:
        self._dsn = dsn
        self._table = sql.Identifier(*table.split("."))
        self._name = name or table
        with psycopg.connect(dsn) as connection:
            # Two sessions may create the table at once: IF NOT EXISTS alone can fail on a unique index of the
            # catalog.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('kohort_fences'))")
            connection.execute(_FENCES)
            connection.execute(_FENCES_OF_0_1)

    def write(self, rows: pa.Table, writers: Writers) -> int:
        with psycopg.connect(self._dsn) as connection:
            fences = self._locked(connection, partitions_of(rows))
            new, after = admitted(rows, writers, fences)
            self._copy(connection, new)
            with connection.cursor() as cursor:
                moved = [
                    (fence.next, fence.number, fence.owner, fence.topic_id, self._name, *tp)
                    for tp, fence in after.items()
                ]
                cursor.executemany(_MOVE, moved)
        return new.num_rows

    def _locked(
        self, connection: psycopg.Connection[Any], tps: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Fence]:
        """Return the partitions' fences, locked until the transaction ends.

        All writers lock them in the same order.
        """
        with connection.cursor() as cursor:
            cursor.executemany(_MAKE, [(self._name, *tp) for tp in tps])
            found = cursor.execute(_LOCK, (self._name, [tp.topic for tp in tps], [tp.partition for tp in tps]))
            return {TopicPartition(topic, number): Fence(*fence) for topic, number, *fence in found}

    def _copy(self, connection: psycopg.Connection[Any], rows: pa.Table) -> None:
        columns = sql.SQL(", ").join(sql.Identifier(name) for name in rows.schema.names)
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(self._table, columns)
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for batch in rows.to_batches():
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
