"""Time partitions of the table of batches: rows that expire at about the same time share one table.

Expired rows are removed by dropping that table, without deleting single rows. A time partition is
a partition of the table `kohort.batches`; its key, in the column `drawer`, is the hour at which all
its rows have expired. The partition with key 0 is permanent: it contains the rows of topics that
are compacted, or that keep their records forever or for less than a few hours.
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kohort.log.config import LogConfig
from kohort.log.postgres.session import Connection, Session
from kohort.model import Millis

log = logging.getLogger("kohort.log")

_HOUR: Millis = 3_600_000
_DAY: Millis = 24 * _HOUR
_LONGEST: Millis = 400 * _DAY
"""Maximum retention time with time partitions of a day, which bounds the number of tables."""
_ONE_AT_A_TIME = 0x6B6F686F7274_01
"""Advisory lock for dropping time partitions."""


@dataclass(frozen=True, slots=True)
class RetentionTerm:
    """Retention time of rows, and the time span of their time partitions."""

    retention_ms: Millis
    hours: int
    """Time span of a time partition, and maximum time span of a segment.

    So expired records are removed at most two time spans later.
    """

    @property
    def roll_ms(self) -> Millis:
        return self.hours * _HOUR


def term(config: LogConfig) -> RetentionTerm | None:
    """Return the retention term of a topic, or None if its rows are deleted individually."""
    kept = config.retention_ms
    if config.compacts or not config.deletes or not 4 * _HOUR <= kept <= _LONGEST:
        return None
    return RetentionTerm(kept, 24 if kept >= 4 * _DAY else 1)


def find_time_partition(connection: Connection, wanted: RetentionTerm | None) -> int:
    """Return the key of the time partition for rows that are written now, after creating it if necessary."""
    if wanted is None:
        return 0
    row = connection.execute(
        "SELECT d, kohort.add_drawer(d) FROM kohort.drawer(%s, %s) AS d", (wanted.retention_ms, wanted.hours)
    ).fetchone()
    assert row is not None
    return int(row[0])


def drop_expired_time_partitions(session: Session, terms: Collection[RetentionTerm | None] = ()) -> list[str]:
    """Drop expired time partitions, and return the names of the dropped tables.

    Rows that have not expired, because the retention time of their topic was increased, are moved
    first. Dropping waits for concurrent readers, so the time partitions that `terms` need next are
    created before it starts. Raises DatabaseTrouble.
    """
    with session.doing() as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_ONE_AT_A_TIME,)).fetchone()
        if row is None or not row[0]:
            return []  # another broker is doing this
        try:
            for wanted in terms:
                if wanted is not None:
                    find_time_partition(connection, wanted)
                    find_time_partition(connection, replace(wanted, retention_ms=wanted.retention_ms + wanted.roll_ms))
            return list(_clear(connection))
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s)", (_ONE_AT_A_TIME,))


def _clear(connection: Connection) -> Iterator[str]:
    for name, hour, attached, pending in _over(connection):
        table = f"kohort.{name}"
        if attached and not pending:
            moved = connection.execute(_MOVE, (hour,)).rowcount
            if moved:
                log.info("moved %d rows of %s that their topics keep for longer", moved, table)
        if attached:
            # This blocks no other transaction, but waits until none has an older view of the table.
            how = "FINALIZE" if pending else "CONCURRENTLY"
            connection.execute(f"ALTER TABLE kohort.batches DETACH PARTITION {table} {how}".encode())
        connection.execute(f"DROP TABLE {table}".encode())
        yield name


_MOVE = """
UPDATE kohort.batches b SET drawer = 0 FROM kohort.partitions p
  WHERE b.drawer = %s AND p.topic_id = b.topic_id AND p.partition = b.partition AND b.next_offset > p.start_offset
"""


def _over(connection: Connection) -> list[tuple[Any, ...]]:
    """Return (table name, hour, is attached, is detach pending) for each expired time partition."""
    return connection.execute(
        "SELECT * FROM (SELECT c.relname, substr(c.relname, 9)::int AS hour, i.inhrelid IS NOT NULL,"
        " coalesce(i.inhdetachpending, false)"
        " FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
        " WHERE c.relnamespace = 'kohort'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^batches_[0-9]+$') AS d"
        " WHERE hour <= extract(epoch FROM clock_timestamp()) / 3600 ORDER BY hour"
    ).fetchall()
