"""Where the image of a cluster over PostgreSQL lies, and its brokers' leases.

A broker that lives has a row with a lease that it renews, by the database's clock. Whoever finds that a lease has ended
takes the broker's row away and gives its partitions to others, in the transaction that makes the next image.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from kohort.log.api import DataDirectoryInUse
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.image import ClusterImage, Node, Transition
from kohort.log.cluster.unsure import DatabaseTrouble, Fenced
from kohort.log.memory import fresh_cluster_id
from kohort.log.postgres.session import PROGRAM, BadDatabase, Connection, Session
from kohort.log.postgres.tables import CHANNEL, CREATE, FORMAT, LIVES, UPGRADES
from kohort.model import UUID

log = logging.getLogger("kohort.log")

_CHANGE_MS = 3_000
"""The most that a change of the image takes; the event loop waits for it."""
_PATIENCE_MS = 500
"""Whoever takes over waits so long for a lock, and tries again after its next beat."""
_LATE = "SELECT node_id FROM kohort.leases WHERE node_id = ANY(%s) AND until < clock_timestamp()"
_HANG_UP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND usename = current_user AND application_name ~ %s
"""
_CREATE_LOCK = 0x6B6F686F7274
"""Whoever makes the tables holds this advisory lock."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a beat."""

    lives: bool
    """Whether this broker is one of the cluster's still."""
    version: int
    """Of the image."""
    late: Sequence[int]
    """Other brokers whose leases have ended."""
    next_ms: int | None
    """Until the next of the others' leases ends; None where there is no other."""


class ClusterDatabase:
    """One broker's hold on the database that it shares. Its methods are for one thread, but for `beat` and `fetch`,
    which another thread may call with a session of its own.
    """

    def __init__(self, dsn: str, node_id: int, cluster_id: str | None = None) -> None:
        """Make the tables if need be, or the ones of an older format anew. Raises BadDatabase, also where the database
        is another cluster's than the one that is asked for.
        """
        self.dsn = dsn
        self.node_id = node_id
        self.life = uuid4()
        """Names this process, so that a later one of its node id is another."""
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
        """Another connection, for another thread."""
        return Session(self.dsn, f"broker {self.node_id} {purpose}", statement_timeout_ms, durable=durable)

    def close(self) -> None:
        self._session.close()
        self._aside.close()

    # The image

    def read(self) -> ClusterImage:
        """The image as it is now. Raises DatabaseTrouble."""
        with self._session.doing() as connection:
            return self.fetch(connection)

    def fetch(self, connection: Connection) -> ClusterImage:
        """The same over a given connection."""
        row = connection.execute("SELECT cluster_id, image FROM kohort.cluster").fetchone()
        if row is None or row[0] != self.cluster_id:
            raise Fenced(f"the database is not that of cluster {self.cluster_id} any more")
        return decode_image(row[1].encode())

    def change(self, transition: Transition) -> ClusterImage:
        """Change the image, durably, and return it. What `transition` raises leaves it as it was.

        Raises DatabaseTrouble; Fenced where this broker was declared dead.
        """
        with self._session.transaction() as connection:
            return self.change_over(connection, transition)

    def change_aside(self, transition: Transition) -> ClusterImage:
        """The same in another thread, one at a time."""
        with self._aside.transaction() as connection:
            return self.change_over(connection, transition)

    def change_over(self, connection: Connection, transition: Transition) -> ClusterImage:
        """The same inside a transaction of that connection."""
        before = _locked(connection)
        if self._joined and self.node_id not in before.nodes:
            raise Fenced(f"broker {self.node_id} was declared dead")
        after = transition(before)
        if after is before:
            return before
        after = replace(after, version=before.version + 1)
        _write(connection, before, after)
        return after

    # Life

    def join(self, node: Node, lease_ms: int) -> ClusterImage:
        """Be one of the brokers. Raises DataDirectoryInUse where another process is that one, and DatabaseTrouble."""
        with self._session.transaction() as connection:
            _locked(connection)
            mine = connection.execute(
                "SELECT until > clock_timestamp() FROM kohort.leases WHERE node_id = %s FOR UPDATE",
                (self.node_id,),
            ).fetchone()
            if mine is not None and mine[0]:
                detail = f"has a broker with node id {self.node_id} already; give this one another by --node-id"
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

    def beat(self, connection: Connection, lease_ms: int) -> Beat:
        """Renew the lease."""
        found = connection.execute(
            "SELECT lives, version, late, next_ms FROM kohort.beat(%s, %s, %s)", (self.node_id, self.life, lease_ms)
        ).fetchone()
        assert found is not None
        return Beat(*found)

    def take_over(self, connection: Connection, late: Sequence[int]) -> tuple[ClusterImage, list[int]]:
        """In a transaction: those whose leases have ended, and still have, are brokers no more."""
        connection.execute("SET LOCAL synchronous_commit = on")
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (str(_PATIENCE_MS),))
        # One that was cut off or stands still may be in a transaction, and hold what has to be changed.
        if still := _late(connection, _LATE, late):
            connection.execute(_HANG_UP, (f"^{PROGRAM} broker ({'|'.join(map(str, still))}) ",))
        _locked(connection)
        dead = _late(connection, f"{_LATE} FOR UPDATE", late)

        def without(image: ClusterImage) -> ClusterImage:
            for node_id in dead:
                image = image.gone(node_id)
            return image

        return self.change_over(connection, without), dead


def _enter(session: Session, wanted: str | None) -> str:
    """Have the tables; the cluster id."""
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
            # A broker of 0.1 that has read the old format a moment ago fails on the image, too.
            image = encode_image(_locked(connection)).decode()
            connection.execute("UPDATE kohort.cluster SET image = %s", (image,))
        if found > FORMAT:
            raise BadDatabase(
                f"the tables in the database have format {found}, this version of kohort reads {FORMAT};"
                " use the version that made them"
            )
        return cluster_id


def _upgrade(connection: Connection, older: int) -> None:
    """From that format to the next."""
    if older not in UPGRADES:
        raise BadDatabase(f"the tables in the database have format {older}, which this version of kohort cannot read")
    connection.execute("SET LOCAL statement_timeout = 0")
    lives = connection.execute(LIVES[older].encode()).fetchall()
    if lives:
        raise BadDatabase(
            f"brokers of an older version of kohort work over the database ({', '.join(str(row[0]) for row in lives)});"
            " stop all of them first, and its tables will be made those of this version"
        )
    log.warning("the tables of cluster format %d are made those of format %d", older, older + 1)
    connection.execute(UPGRADES[older].encode())
    connection.execute("UPDATE kohort.cluster SET format = %s", (older + 1,))


def read_image(dsn: str) -> ClusterImage:
    """The image of the cluster in that database, for whoever only looks. Raises BadDatabase."""
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
    """Brokers first: appends lock in that order."""
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
    """Partitions with another leader or epoch, in the order of their keys."""
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
