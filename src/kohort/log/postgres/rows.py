"""Batches as rows: one sync writes them, a new leader reads them, retention and compaction delete them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.log.cluster import PartitionId
from kohort.log.postgres.arrays import Byteas, Int4s, Int8s, Uuids
from kohort.log.postgres.cluster_state import ClusterDatabase
from kohort.log.postgres.session import Connection, Session
from kohort.log.postgres.time_partitions import RetentionTerm, find_time_partition
from kohort.model import UUID

_COPY_FROM = 1 << 20
"""Minimum size in bytes from which COPY is cheaper than statement parameters."""
_WITHIN_HOURS = 48
"""Maximum time for which rows below the start offset wait until their whole table is dropped."""
Row = tuple[UUID, int, int, int, bytes]
"""Topic ID, partition, base offset, next offset, batches."""
_TYPES = ("uuid", "int4", "int8", "int8", "bytea", "int4")


@dataclass(slots=True)
class Appends:
    """Appends of one sync: new end offsets of partitions, and rows."""

    partitions: list[tuple[UUID, int, int, int, int]] = field(default_factory=list)
    """Topic ID, partition, epoch, old end offset, new end offset."""
    rows: list[Row] = field(default_factory=list)
    terms: list[RetentionTerm | None] = field(default_factory=list)
    """Retention of each row."""

    @property
    def size(self) -> int:
        return sum(len(row[4]) for row in self.rows)


class RowTable:
    """The `Table` of one broker."""

    def __init__(self, home: ClusterDatabase, session: Session) -> None:
        self._home = home
        self._session = session

    def append(self, appends: Appends, number: int) -> None:
        who = (self._home.node_id, self._home.life, number)
        topics, numbers, epochs, bases, nexts = zip(*appends.partitions, strict=True)
        claimed = (Uuids(topics), Int4s(numbers), Int4s(epochs), Int8s(bases), Int8s(nexts))
        if appends.size < _COPY_FROM:
            topics, numbers, bases, nexts, bodies = zip(*appends.rows, strict=True)
            rows = (Uuids(topics), Int4s(numbers), Int8s(bases), Int8s(nexts), Byteas(bodies))
            retentions = Int8s(0 if term is None else term.retention_ms for term in appends.terms)
            hours = Int4s(0 if term is None else term.hours for term in appends.terms)
            with self._session.doing() as connection:
                connection.execute(
                    "SELECT kohort.append(%s, %s, %s, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b)",
                    (*who, *claimed, *rows, retentions, hours),
                    prepare=True,
                )
            return
        with self._session.transaction() as connection:
            connection.execute(
                "SELECT kohort.claim(%s, %s, %s, %b, %b, %b, %b, %b)",
                (*who, *claimed),
            )
            time_partitions = {wanted: find_time_partition(connection, wanted) for wanted in set(appends.terms)}
            copy_rows(connection, appends.rows, [time_partitions[wanted] for wanted in appends.terms])

    def last_append(self) -> int | None:
        # FOR UPDATE waits until the server has ended a dropped connection's transaction, which
        # holds the broker's row.
        with self._session.transaction() as connection:
            row = connection.execute(
                "SELECT last_sync FROM kohort.brokers WHERE node_id = %s AND life = %s FOR UPDATE",
                (self._home.node_id, self._home.life),
            ).fetchone()
        return None if row is None else int(row[0])

    def make_time_partitions(self, appends: Appends) -> None:
        with self._session.transaction() as connection:
            for wanted in set(appends.terms):
                find_time_partition(connection, wanted)


def copy_rows(connection: Connection, rows: Sequence[Row], time_partitions: Sequence[int]) -> None:
    """Insert rows into their time partitions; the caller has started a transaction."""
    columns = "topic_id, partition, base_offset, next_offset, body, drawer"
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY kohort.batches ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy,
    ):
        copy.set_types(_TYPES)
        for row, time_partition in zip(rows, time_partitions, strict=True):
            copy.write_row((*row, time_partition))


@dataclass(frozen=True, slots=True)
class StoredExtent:
    """Start and end offsets of a partition's log."""

    start_offset: int
    end_offset: int


def read_extents(connection: Connection, node_id: int) -> dict[PartitionId, StoredExtent]:
    """Return the extents of all partitions that the broker leads."""
    rows = connection.execute(
        "SELECT topic_id, partition, start_offset, end_offset FROM kohort.partitions WHERE node_id = %s", (node_id,)
    ).fetchall()
    return {PartitionId(topic_id, number): StoredExtent(start, end) for topic_id, number, start, end in rows}


def read_rows(connection: Connection, partition_id: PartitionId, start_offset: int) -> Iterator[tuple[Any, ...]]:
    """Yield base offset, batches and time partition of each row that is not below the start offset, in order."""
    statement = (
        "COPY (SELECT base_offset, body, drawer FROM kohort.batches WHERE topic_id = %s AND partition = %s"
        " AND next_offset > %s ORDER BY base_offset) TO STDOUT (FORMAT BINARY)"
    )
    with connection.cursor() as cursor, cursor.copy(statement, (*partition_id, start_offset)) as copy:
        copy.set_types(("int8", "bytea", "int4"))
        yield from copy.rows()


def move_start(connection: Connection, partition_id: PartitionId, epoch: int, start_offset: int) -> None:
    """Move the start offset and delete the rows below it, if the partition's leader epoch is still the same.

    Rows whose table will soon be dropped anyway are not deleted.
    """
    with connection.transaction():
        found = connection.execute(
            "UPDATE kohort.partitions SET start_offset = greatest(start_offset, %s)"
            " WHERE topic_id = %s AND partition = %s AND epoch = %s",
            (start_offset, *partition_id, epoch),
        )
        if found.rowcount:
            connection.execute(
                "DELETE FROM kohort.batches WHERE topic_id = %s AND partition = %s AND next_offset <= %s"
                " AND (drawer = 0 OR drawer > extract(epoch FROM now()) / 3600 + %s)",
                (*partition_id, start_offset, _WITHIN_HOURS),
            )


def replace_rows(
    connection: Connection,
    partition_id: PartitionId,
    epoch: int,
    base_offset: int,
    end_offset: int,
    rows: Sequence[Row],
) -> bool:
    """Replace all rows from `base_offset` up to `end_offset` by compacted ones, in one transaction.

    Returns False if another broker leads the partition now.
    """
    with connection.transaction():
        mine = connection.execute(
            "SELECT 1 FROM kohort.partitions WHERE topic_id = %s AND partition = %s AND epoch = %s FOR UPDATE",
            (*partition_id, epoch),
        ).fetchone()
        if mine is None:
            return False
        connection.execute(
            "DELETE FROM kohort.batches WHERE topic_id = %s AND partition = %s AND base_offset >= %s"
            " AND base_offset < %s",
            (*partition_id, base_offset, end_offset),
        )
        copy_rows(connection, rows, [0] * len(rows))
    return True


def forget_deleted(connection: Connection) -> None:
    """Delete the rows of deleted topics."""
    connection.execute(
        "DELETE FROM kohort.batches WHERE topic_id IN (SELECT topic_id FROM kohort.batches GROUP BY topic_id"
        " EXCEPT SELECT topic_id FROM kohort.partitions)"
    )
