"""A connection to PostgreSQL with short timeouts, which is opened again after it broke."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from kohort.errors import KohortError
from kohort.log.cluster import DatabaseTrouble, Fenced, NoTimePartition, ResultUnknown
from kohort.log.postgres.arrays import register
from kohort.log.postgres.tables import FENCED, NO_DRAWER, STALE

log = logging.getLogger("kohort.log")

Connection = psycopg.Connection[tuple[Any, ...]]

PROGRAM = "kohort"
"""Prefix of the names of all sessions."""
_CONNECT_S = 3
_IDLE_IN_TRANSACTION_MS = 5_000
"""Maximum time for which a broker whose host is unreachable holds its locks."""


class BadDatabase(KohortError):
    """The database cannot be used: it does not exist, is not Kohort's, or has another version."""


class Session:
    """One connection, used by one thread at a time."""

    def __init__(self, dsn: str, name: str, statement_timeout_ms: int, *, durable: bool = True) -> None:
        """Prepare a session, without a connection yet.

        `name` is visible to the server's administrator. If not `durable`, a crash of the server may
        undo the transactions of the last second. Raises BadDatabase if the DSN is invalid.
        """
        try:
            conninfo_to_dict(dsn)
            self._conninfo = make_conninfo(
                dsn,
                connect_timeout=_CONNECT_S,
                application_name=f"{PROGRAM} {name}",
                keepalives_idle=2,
                keepalives_interval=1,
                keepalives_count=3,
                tcp_user_timeout=max(3_000, statement_timeout_ms),
            )
        except psycopg.Error as error:
            raise BadDatabase(f"--postgres takes a connection string of PostgreSQL: {_sentence(error)}") from None
        self._timeout_ms = statement_timeout_ms
        self._durable = durable
        self._connection: Connection | None = None
        self._closing = threading.Lock()

    def connection(self) -> Connection:
        """Return the connection; connects if necessary. Raises ConnectionBroke."""
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(self._conninfo, autocommit=True)
                register(self._connection)
                self._connection.execute(
                    "SELECT set_config('statement_timeout', %s, false), set_config('synchronous_commit', %s, false),"
                    " set_config('idle_in_transaction_session_timeout', %s, false)",
                    (str(self._timeout_ms), "on" if self._durable else "off", str(_IDLE_IN_TRANSACTION_MS)),
                )
            except psycopg.Error as error:
                self.close()
                raise ResultUnknown(f"cannot connect to PostgreSQL: {_sentence(error)}") from error
        return self._connection

    @contextmanager
    def doing(self) -> Iterator[Connection]:
        """Use the connection; errors of PostgreSQL are raised as DatabaseTrouble."""
        connection = self.connection()
        try:
            yield connection
        except psycopg.Error as error:
            raise self._trouble(connection, error) from error

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Use the connection in one transaction, with errors as for `doing`."""
        with self.doing() as connection, connection.transaction():
            yield connection

    def cancel(self) -> None:
        """Cancel the running statement, from another thread; it raises an error."""
        connection = self._connection
        if connection is not None:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=1.0)

    def close(self) -> None:
        """Disconnect; the next use connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _trouble(self, connection: Connection, error: psycopg.Error) -> DatabaseTrouble:
        if error.sqlstate in (FENCED, STALE):
            return Fenced(_sentence(error))
        if error.sqlstate == NO_DRAWER:
            return NoTimePartition(_sentence(error))
        # A server that shuts down reports it (57P01 to 57P03) before it disconnects. A timeout of
        # the client has no SQLSTATE; the result is unknown then, too.
        if connection.closed or error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            self.close()
            return ResultUnknown(_sentence(error))
        return DatabaseTrouble(_sentence(error))


def _sentence(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
