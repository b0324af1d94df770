"""The image of a cluster in PostgreSQL, and the leases of its brokers.

A live broker has a row with a lease, which it renews by the clock of the database. A broker that
detects an expired lease removes the row of that broker and reassigns its partitions, in the
transaction that creates the next image.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from kohort.log.api import DataDirectoryInUse
from kohort.log.cluster import ClusterImage, DatabaseTrouble, Fenced, Node, Transition, decode_image, encode_image
from kohort.log.memory import fresh_cluster_id
from kohort.log.postgres.session import PROGRAM, BadDatabase, Connection, Session
from kohort.log.postgres.tables import CHANNEL, CREATE, FORMAT, LIVES, UPGRADES
from kohort.model import UUID

log = logging.getLogger("kohort.log")

_CHANGE_MS = 3_000
"""Maximum time of a change of the image, in milliseconds. The event loop waits for it."""
_PATIENCE_MS = 500
"""Maximum time that a takeover waits for a lock, in milliseconds; it is retried after the next heartbeat."""
_LATE = "SELECT node_id FROM kohort.leases WHERE node_id = ANY(%s) AND until < clock_timestamp()"
_HANG_UP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name ~ %s
"""
_CREATE_LOCK = 0x6B6F686F7274
"""Advisory lock for the creation of the tables."""


@dataclass(frozen=True, slots=True)
class LeaseRenewal:
    """Result of a lease renewal."""

    lives: bool
    """Whether this broker is still a member of the cluster."""
    version: int
    """Version of the image."""
    late: Sequence[int]
    """Node IDs of other brokers with expired leases."""
    next_ms: int | None
    """Time until the next lease of another broker expires, in milliseconds; None without other brokers."""


class ClusterDatabase:
    """Access of one broker to the shared database.

    The methods must be called from one thread, except `heartbeat` and `fetch`, which another thread may
    call with its own session.
    """

    def __init__(self, dsn: str, node_id: int, cluster_id: str | None = None) -> None:
        """Connect to the database, and create or upgrade the tables if necessary.

        Raises BadDatabase, also if the database belongs to a cluster other than `cluster_id`.
        """
        self.dsn = dsn
        self.node_id = node_id
        self.life = uuid4()
        """Identifies this process, so a later process with the same node ID has another identity."""
        self._joined = False
        self._session = Session(dsn, f"broker {node_id} image", _CHANGE_MS)
        self._aside = self.session("giver", _CHANGE_MS)
        try:
            self.cluster_id = _enter(self._session, cluster_id)
        except BaseException as error:
            self._session.close()
            if isinstance(error, DatabaseTrouble):
                raise BadDatabase(f"cannot use the database: {error}") from None
            raise

    def session(self, purpose: str, statement_timeout_ms: int, *, durable: bool = True) -> Session:
        """Open another connection, for another thread."""
        return Session(self.dsn, f"broker {self.node_id} {purpose}", statement_timeout_ms, durable=durable)

    def close(self) -> None:
        self._session.close()
        self._aside.close()

    # The image

    def read(self) -> ClusterImage:
        """Return the current image. Raises DatabaseTrouble."""
        with self._session.doing() as connection:
            return self.fetch(connection)

    def fetch(self, connection: Connection) -> ClusterImage:
        """Return the current image, read over the given connection. Raises Fenced if the cluster is another one."""
        row = connection.execute("SELECT cluster_id, image FROM kohort.cluster").fetchone()
        if row is None or row[0] != self.cluster_id:
            raise Fenced(f"the database no longer belongs to cluster {self.cluster_id}")
        return decode_image(row[1].encode())

    def change(self, transition: Transition) -> ClusterImage:
        """Change the image durably, and return it. If `transition` raises an error, the image does not change.

        Raises DatabaseTrouble, or Fenced if this broker was declared dead.
        """
        with self._session.transaction() as connection:
            return self.change_over(connection, transition)

    def change_aside(self, transition: Transition) -> ClusterImage:
        """Like `change`, for another thread. Only one thread at a time may call this."""
        with self._aside.transaction() as connection:
            return self.change_over(connection, transition)

    def change_over(self, connection: Connection, transition: Transition) -> ClusterImage:
        """Like `change`, within the current transaction of that connection."""
        before = _locked(connection)
        if self._joined and self.node_id not in before.nodes:
            raise Fenced(f"broker {self.node_id} was declared dead")
        after = transition(before)
        if after is before:
            return before
        after = replace(after, version=before.version + 1)
        _write(connection, before, after)
        return after

    # Leases

    def join(self, node: Node, lease_ms: int) -> ClusterImage:
        """Register this broker in the cluster. Return the new image.

        Raises DataDirectoryInUse if another process has the same node ID, and DatabaseTrouble.
        """
        with self._session.transaction() as connection:
            _locked(connection)
            mine = connection.execute(
                "SELECT until > clock_timestamp() FROM kohort.leases WHERE node_id = %s FOR UPDATE",
                (self.node_id,),
            ).fetchone()
            if mine is not None and mine[0]:
                detail = f"already has a broker with node id {self.node_id}; choose another one with --node-id"
                raise DataDirectoryInUse(f"the cluster in the database {detail}")
            _forget_brokers(connection, [self.node_id])
            connection.execute("INSERT INTO kohort.brokers (node_id, life) VALUES (%s, %s)", (self.node_id, self.life))
            connection.execute(
                "INSERT INTO kohort.leases (node_id, life, until)"
                " VALUES (%s, %s, clock_timestamp() + %s * interval '1 ms')",
                (self.node_id, self.life, lease_ms),
            )
            image = self.change_over(connection, lambda image: image.joined(node))
        self._joined = True
        return image

    def heartbeat(self, connection: Connection, lease_ms: int) -> LeaseRenewal:
        """Renew the lease."""
        found = connection.execute(
            "SELECT lives, version, late, next_ms FROM kohort.beat(%s, %s, %s)", (self.node_id, self.life, lease_ms)
        ).fetchone()
        assert found is not None
        return LeaseRenewal(*found)

    def take_over(self, connection: Connection, late: Sequence[int]) -> tuple[ClusterImage, list[int]]:
        """Remove the brokers whose leases are still expired; return the new image and their node IDs.

        Must be called within a transaction.
        """
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (str(_PATIENCE_MS),))
        # A broker that is disconnected or suspended may have an open transaction with locks on
        # these rows.
        if still := _late(connection, _LATE, late):
            connection.execute(_HANG_UP, (f"^{PROGRAM} broker ({'|'.join(map(str, still))}) ",))
        _locked(connection)
        dead = _late(connection, f"{_LATE} FOR UPDATE", late)

        def without(image: ClusterImage) -> ClusterImage:
            for node_id in dead:
                image = image.without_broker(node_id)
            return image

        return self.change_over(connection, without), dead


def _enter(session: Session, wanted: str | None) -> str:
    """Create or upgrade the tables if necessary, and return the cluster ID."""
    with session.transaction() as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
        there = connection.execute(
            "SELECT to_regnamespace('kohort') IS NOT NULL, to_regclass('kohort.cluster') IS NOT NULL"
        ).fetchone()
        if there == (True, False):
            raise BadDatabase("the database has a schema named kohort that is not a cluster's; choose another database")
        if there == (False, False):
            connection.execute(CREATE.encode())
            connection.execute(
                "INSERT INTO kohort.cluster (format, cluster_id, version, image) VALUES (%s, %s, 0, %s)",
                (FORMAT, wanted or fresh_cluster_id(), encode_image(ClusterImage()).decode()),
            )
        row = connection.execute("SELECT format, cluster_id FROM kohort.cluster").fetchone()
        if row is None:
            raise BadDatabase("the tables in the database are damaged: they name no cluster; choose another database")
        found, cluster_id = cast("tuple[int, str]", row)
        if wanted not in (None, cluster_id):
            raise BadDatabase(f"the database belongs to cluster {cluster_id}, not {wanted}")
        for older in range(found, FORMAT):
            _upgrade(connection, older)
        if found < FORMAT:
            # A broker of 0.1 that read the old format just before must fail on the image, too.
            image = encode_image(_locked(connection)).decode()
            connection.execute("UPDATE kohort.cluster SET image = %s", (image,))
        if found > FORMAT:
            raise BadDatabase(
                f"the tables in the database have format {found}, this version of kohort reads {FORMAT};"
                " use the version that made them"
            )
        return cluster_id


def _upgrade(connection: Connection, older: int) -> None:
    """Upgrade the tables from that format to the next."""
    if older not in UPGRADES:
        raise BadDatabase(f"the tables in the database have format {older}, which this version of kohort cannot read")
    connection.execute("SET LOCAL statement_timeout = 0")
    lives = connection.execute(LIVES[older].encode()).fetchall()
    if lives:
        raise BadDatabase(
            f"brokers of an older version of kohort use the database ({', '.join(str(row[0]) for row in lives)});"
            " stop all of them first; then this version upgrades its tables"
        )
    log.warning("upgrading the tables from cluster format %d to %d", older, older + 1)
    connection.execute(UPGRADES[older].encode())
    connection.execute("UPDATE kohort.cluster SET format = %s", (older + 1,))


def read_image(dsn: str) -> ClusterImage:
    """Return the image of the cluster in that database, for read-only tools. Raises BadDatabase."""
    session = Session(dsn, "looks", _CHANGE_MS)
    try:
        with session.doing() as connection:
            row = connection.execute("SELECT image FROM kohort.cluster").fetchone()
            assert row is not None
            return decode_image(row[0].encode())
    except DatabaseTrouble as error:
        raise BadDatabase(f"cannot read the database: {error}") from None
    finally:
        session.close()


def _late(connection: Connection, statement: str, of: Sequence[int]) -> list[int]:
    return [row[0] for row in connection.execute(statement.encode(), (list(of),)).fetchall()]


def _locked(connection: Connection) -> ClusterImage:
    row = connection.execute("SELECT image FROM kohort.cluster FOR UPDATE").fetchone()
    assert row is not None
    return decode_image(row[0].encode())


def _write(connection: Connection, before: ClusterImage, after: ClusterImage) -> None:
    """Write the changes of the image. The order is brokers first, because appends lock in that order."""
    gone = before.nodes.keys() - after.nodes.keys()
    if gone:
        _forget_brokers(connection, list(gone))
    removed = list(before.topics.keys() - after.topics.keys())
    if removed:
        connection.execute("DELETE FROM kohort.partitions WHERE topic_id = ANY(%s)", (removed,))
    changed = list(_changed(before, after))
    if changed:
        columns: list[Any] = [list(column) for column in zip(*changed, strict=True)]
        connection.execute(
            "INSERT INTO kohort.partitions (topic_id, partition, node_id, epoch)"
            " SELECT * FROM unnest(%s::uuid[], %s::int[], %s::int[], %s::int[])"
            " ON CONFLICT (topic_id, partition) DO UPDATE SET node_id = excluded.node_id, epoch = excluded.epoch",
            columns,
        )
    connection.execute(
        "UPDATE kohort.cluster SET version = %s, image = %s", (after.version, encode_image(after).decode())
    )
    connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, str(after.version)))


def _forget_brokers(connection: Connection, node_ids: list[int]) -> None:
    for table in (b"leases", b"brokers"):
        connection.execute(b"DELETE FROM kohort.%s WHERE node_id = ANY(%%s)" % table, (node_ids,))


def _changed(before: ClusterImage, after: ClusterImage) -> "list[tuple[UUID, int, int, int]]":
    """Return the partitions with a new leader or epoch, ordered by key."""
    found = []
    for topic_id, leaders in sorted(after.leaders.items()):
        had = before.leaders.get(topic_id, ())
        if leaders is had:
            continue
        for number, leader in enumerate(leaders):
            known = had[number] if number < len(had) else None
            if known is None or (known.node_id, known.epoch) != (leader.node_id, leader.epoch):
                found.append((topic_id, number, leader.node_id, leader.epoch))
    return found
