"""Rows that go by time lie together with all else that goes then, and go as a table: no row is deleted for it.

A *drawer* is a partition of the table `kohort.batches`, named by the hour at which all in it is over. Topics that are
compacted, or keep their records for ever or for less than a few hours, have their rows in the drawer that stays.
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
"""With a drawer for each day there are enough tables."""
_ONE_AT_A_TIME = 0x6B6F686F7274_01
"""Whoever clears drawers holds this advisory lock."""


@dataclass(frozen=True, slots=True)
class Term:
    """How long rows stay."""

    retention_ms: Millis
    hours: int
    """Of a drawer, and of a segment at most: so what is over goes at most two of them later."""

    @property
    def roll_ms(self) -> Millis:
        return self.hours * _HOUR


def term(config: LogConfig) -> Term | None:
    """None where rows stay until each is deleted."""
    kept = config.retention_ms
    if config.compacts or not config.deletes or not 4 * _HOUR <= kept <= _LONGEST:
        return None
    return Term(kept, 24 if kept >= 4 * _DAY else 1)


def find_drawer(connection: Connection, wanted: Term | None) -> int:
    """The drawer of rows that are written now, there when this returns."""
    if wanted is None:
        return 0
    row = connection.execute(
        "SELECT d, kohort.add_drawer(d) FROM kohort.drawer(%s, %s) AS d", (wanted.retention_ms, wanted.hours)
    ).fetchone()
    assert row is not None
    return int(row[0])


def clear_drawers(session: Session, terms: Collection[Term | None] = ()) -> list[str]:
    """Drop the drawers whose time is over; the names of the tables that are gone. What is alive in them, because its
    topic keeps its records for longer by now, is moved first. Waits for whoever reads: so have the drawers ready that
    rows of these terms need next. Raises DatabaseTrouble.
    """
    with session.doing() as connection:
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (_ONE_AT_A_TIME,)).fetchone()
        if row is None or not row[0]:
            return []  # another broker is at it
        try:
            for wanted in terms:
                if wanted is not None:
                    find_drawer(connection, wanted)
                    find_drawer(connection, replace(wanted, retention_ms=wanted.retention_ms + wanted.roll_ms))
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
            # Nobody waits for it, but it waits until nobody has a view of the table from before.
            how = "FINALIZE" if pending else "CONCURRENTLY"
            connection.execute(f"ALTER TABLE kohort.batches DETACH PARTITION {table} {how}".encode())
        connection.execute(f"DROP TABLE {table}".encode())
        yield name


_MOVE = """
UPDATE kohort.batches b SET drawer = 0 FROM kohort.partitions p
  WHERE b.drawer = %s AND p.topic_id = b.topic_id AND p.partition = b.partition AND b.next_offset > p.start_offset
"""


def _over(connection: Connection) -> list[tuple[Any, ...]]:
    """Of each drawer that is over: its table, its hour, whether it is one still, whether it is about to be none."""
    return connection.execute(
        "SELECT * FROM (SELECT c.relname, substr(c.relname, 9)::int AS hour, i.inhrelid IS NOT NULL,"
        " coalesce(i.inhdetachpending, false)"
        " FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
        " WHERE c.relnamespace = 'kohort'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^batches_[0-9]+$') AS d"
        " WHERE hour <= extract(epoch FROM clock_timestamp()) / 3600 ORDER BY hour"
    ).fetchall()
