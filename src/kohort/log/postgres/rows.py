"""Batches as rows: written by one sync, read when a partition is taken over, dropped by retention and compaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.log.cluster.image import PartitionId
from kohort.log.postgres.arrays import Byteas, Int4s, Int8s, Uuids
from kohort.log.postgres.drawers import Term, find_drawer
from kohort.log.postgres.home import ClusterDatabase
from kohort.log.postgres.session import Connection, Session
from kohort.model import UUID

_COPY_FROM = 1 << 20
"""Bytes from which COPY is cheaper than parameters of a statement."""
_WITHIN_HOURS = 48
"""So long, at most, do rows that retention dropped wait for their drawer's end."""
Row = tuple[UUID, int, int, int, bytes]
"""Topic, number, first offset, the offset behind, the batches."""
_TYPES = ("uuid", "int4", "int8", "int8", "bytea", "int4")


@dataclass(slots=True)
class Appends:
    """What one sync writes: how far each partition goes, and the rows."""

    partitions: list[tuple[UUID, int, int, int, int]] = field(default_factory=list)
    """Topic, number, epoch, from which offset, to which."""
    rows: list[Row] = field(default_factory=list)
    terms: list[Term | None] = field(default_factory=list)
    """Of each row: how long it stays."""

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
            retentions = Int8s(0 if one is None else one.retention_ms for one in appends.terms)
            hours = Int4s(0 if one is None else one.hours for one in appends.terms)
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
            drawers = {wanted: find_drawer(connection, wanted) for wanted in set(appends.terms)}
            copy_rows(connection, appends.rows, [drawers[wanted] for wanted in appends.terms])

    def last_append(self) -> int | None:
        # It waits until the server has ended what a dropped connection left under way, for that holds the broker's row.
        with self._session.transaction() as connection:
            row = connection.execute(
                "SELECT last_sync FROM kohort.brokers WHERE node_id = %s AND life = %s FOR UPDATE",
                (self._home.node_id, self._home.life),
            ).fetchone()
        return None if row is None else int(row[0])

    def make_drawers(self, appends: Appends) -> None:
        with self._session.transaction() as connection:
            for wanted in set(appends.terms):
                find_drawer(connection, wanted)


def copy_rows(connection: Connection, rows: Sequence[Row], drawers: Sequence[int]) -> None:
    """Inside a transaction; each row into its drawer."""
    columns = "topic_id, partition, base_offset, next_offset, body, drawer"
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY kohort.batches ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as copy,
    ):
        copy.set_types(_TYPES)
        for row, drawer in zip(rows, drawers, strict=True):
            copy.write_row((*row, drawer))


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a partition's log begins and ends."""

    start_offset: int
    end_offset: int


def read_extents(connection: Connection, node_id: int) -> dict[PartitionId, Extent]:
    """Of all partitions that the broker leads."""
    rows = connection.execute(
        "SELECT topic_id, partition, start_offset, end_offset FROM kohort.partitions WHERE node_id = %s", (node_id,)
    ).fetchall()
    return {PartitionId(topic_id, number): Extent(start, end) for topic_id, number, start, end in rows}


def read_rows(connection: Connection, one: PartitionId, start_offset: int) -> Iterator[tuple[Any, ...]]:
    """First offset, batches and drawer of each row that is not below the start, in order."""
    statement = (
        "COPY (SELECT base_offset, body, drawer FROM kohort.batches WHERE topic_id = %s AND partition = %s"
        " AND next_offset > %s ORDER BY base_offset) TO STDOUT (FORMAT BINARY)"
    )
    with connection.cursor() as cursor, cursor.copy(statement, (*one, start_offset)) as copy:
        copy.set_types(("int8", "bytea", "int4"))
        yield from copy.rows()


def move_start(connection: Connection, one: PartitionId, epoch: int, start_offset: int) -> None:
    """What lies below is gone, if the partition is still led at that epoch; rows whose drawer goes soon anyway
    are left to it.
    """
    with connection.transaction():
        found = connection.execute(
            "UPDATE kohort.partitions SET start_offset = greatest(start_offset, %s)"
            " WHERE topic_id = %s AND partition = %s AND epoch = %s",
            (start_offset, *one, epoch),
        )
        if found.rowcount:
            connection.execute(
                "DELETE FROM kohort.batches WHERE topic_id = %s AND partition = %s AND next_offset <= %s"
                " AND (drawer = 0 OR drawer > extract(epoch FROM now()) / 3600 + %s)",
                (*one, start_offset, _WITHIN_HOURS),
            )


def replace_rows(
    connection: Connection, one: PartitionId, epoch: int, base_offset: int, end_offset: int, rows: Sequence[Row]
) -> bool:
    """In one transaction, what compaction made takes the place of all from `base_offset` up to `end_offset`.

    False where the partition is another's by now.
    """
    with connection.transaction():
        mine = connection.execute(
            "SELECT 1 FROM kohort.partitions WHERE topic_id = %s AND partition = %s AND epoch = %s FOR UPDATE",
            (*one, epoch),
        ).fetchone()
        if mine is None:
            return False
        connection.execute(
            "DELETE FROM kohort.batches WHERE topic_id = %s AND partition = %s AND base_offset >= %s"
            " AND base_offset < %s",
            (*one, base_offset, end_offset),
        )
        copy_rows(connection, rows, [0] * len(rows))
    return True


def forget_deleted(connection: Connection) -> None:
    """Remove the rows of topics that are gone."""
    connection.execute(
        "DELETE FROM kohort.batches WHERE topic_id IN (SELECT topic_id FROM kohort.batches GROUP BY topic_id"
        " EXCEPT SELECT topic_id FROM kohort.partitions)"
    )
