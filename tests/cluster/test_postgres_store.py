"""The store over PostgreSQL: who may append, what a broken connection leaves, what the next leader finds."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from kohort.log import DataDirectoryInUse, Topic
from kohort.log.cluster import Node, PartitionId
from kohort.log.postgres import BadDatabase, ClusterDatabase, Fenced, PostgresStore, ResultUnknown
from kohort.model import UUID
from tests.cluster.postgres import PostgresServer
from tests.cluster.wire import Wire, wire_to
from tests.log.logs import append, flush, values

LEASE_MS = 600_000
Open = Callable[..., PostgresStore]


@pytest.fixture
def dsn(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture
def wire(dsn: str) -> Iterator[Wire]:
    with tempfile.TemporaryDirectory(prefix="kohort-wire-") as directory, wire_to(Path(directory), dsn) as found:
        yield found


@pytest.fixture
def join(dsn: str, tmp_path: Path) -> Iterator[Open]:
    """A broker's store, in the cluster with a long lease."""
    opened: list[PostgresStore] = []

    def open_one(node_id: int, through: str = dsn) -> PostgresStore:
        home = ClusterDatabase(through, node_id)
        try:
            home.join(Node(node_id, "localhost", 9000 + node_id), LEASE_MS)
        except BaseException:
            home.close()
            raise
        scratch = tmp_path / f"scratch-{len(opened)}"
        scratch.mkdir()
        opened.append(PostgresStore(home, scratch))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def topic_of(store: PostgresStore, partitions: int = 1, *, name: str = "orders", **configs: str) -> UUID:
    topic_id = uuid4()
    named = {name.replace("_", "."): value for name, value in configs.items()}
    store.create_topic(Topic(topic_id, name, partitions, named))
    return topic_id


def take_over(store: PostgresStore, *dead: int) -> None:
    """As a broker does that finds these leases ended."""
    with psycopg.connect(store.home.dsn) as connection:
        connection.execute(
            "UPDATE kohort.leases SET until = now() - interval '1 s' WHERE node_id = ANY(%s)", (list(dead),)
        )
    with psycopg.connect(store.home.dsn) as connection:
        image, found = store.home.take_over(connection, dead)
    assert found == list(dead)
    store.follow(image)
    for partition in store.wanted():
        assert store.loaded(partition, store.load(partition))


def test_only_one_of_two_supposed_leaders_is_acknowledged(join: Open) -> None:
    first, second = join(1), join(2)
    topic_id = topic_of(first)
    log = first.partition(topic_id, 0)
    append(log, b"a")
    flush(first)
    append(log, b"b")
    pending = first.take()
    assert pending is not None
    take_over(second, 1)  # between its take and its sync, without notice
    with pytest.raises(Fenced):
        first.sync(pending)
    with pytest.raises(ResultUnknown):  # the broker that took over closed the connection
        first.create_topic(Topic(uuid4(), "more", 1))
    with pytest.raises(Fenced, match="declared dead"):
        first.create_topic(Topic(uuid4(), "more", 1))
    successor = second.partition(topic_id, 0)
    assert successor.leader_epoch > log.leader_epoch
    assert values(successor) == [b"a"]
    append(successor, b"c")
    flush(second)
    assert values(successor) == [b"a", b"c"]


def test_a_takeover_does_not_wait_for_a_suspended_broker_with_the_images_lock(join: Open) -> None:
    first, second = join(1), join(2)
    with psycopg.connect(first.home.dsn, application_name="kohort broker 1 image") as still:
        still.execute("SELECT image FROM kohort.cluster FOR UPDATE")
        take_over(second, 1)
        with pytest.raises(psycopg.OperationalError):
            still.execute("SELECT 1")


def test_a_partition_that_was_given_away_takes_nothing_of_its_old_leader(join: Open) -> None:
    first = join(1)
    topic_id = topic_of(first)
    log = first.partition(topic_id, 0)
    append(log, b"a")
    flush(first)
    second = join(2)
    partition = PartitionId(topic_id, 0)
    home = second.home
    second.follow(
        home.change(lambda image: image.led({partition: image.leader(partition)._replace(node_id=2, epoch=5)}))
    )
    append(log, b"late")
    pending = first.take()
    assert pending is not None
    with pytest.raises(Fenced, match="leads only 0 of 1"):
        first.sync(pending)
    assert second.loaded(partition, second.load(partition))
    assert values(second.partition(topic_id, 0)) == [b"a"]


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["statement", "copy"])
@pytest.mark.parametrize("answer", [True, False], ids=["in", "not in"])
def test_an_append_whose_connection_breaks_is_in_once(join: Open, wire: Wire, *, answer: bool, size: int) -> None:
    store = join(1, wire.dsn)
    topic_id = topic_of(store)
    log = store.partition(topic_id, 0)
    append(log, b"first")
    flush(store)
    wire.lose(b"COMMIT" if size > 1_000_000 else _MARK, answer=answer)
    append(log, _MARK + b"x" * size)
    append(log, b"y")
    flush(store)
    assert wire.lost.is_set()
    append(log, b"z")
    flush(store)
    found = values(log)
    assert [value[:1] for value in found if value] == [b"f", _MARK[:1], b"y", b"z"]
    successor = join(2)
    take_over(successor, 1)
    assert values(successor.partition(topic_id, 0)) == found


_MARK = b"-this one-"


def test_the_next_leader_finds_offsets_epochs_producers_and_the_start(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store, segment_bytes="300")
    log = store.partition(topic_id, 0)
    for number in range(20):
        append(log, b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
        flush(store)
    assert log.delete_before(12) == 12
    flush(store)
    successor = join(2)
    take_over(successor, 1)
    found = successor.partition(topic_id, 0)
    assert (found.start_offset, found.end_offset) == (12, 20)
    assert values(found) == [b"%d" % number for number in range(12, 20)]
    known = found.producers.get(7)
    assert known is not None and known.batches[-1].last_sequence == 19
    with psycopg.connect(store.home.dsn) as connection:
        (left,) = connection.execute("SELECT count(*) FROM kohort.batches").fetchone() or (None,)
    assert left is not None and left < 20, "what lies below the start is gone from the table"


def test_compaction_takes_rows_away_and_the_next_leader_finds_what_it_left(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store, cleanup_policy="compact", segment_bytes="300", min_cleanable_dirty_ratio="0.01")
    log = store.partition(topic_id, 0)
    for number in range(40):
        append(log, b"%d" % number)  # all of one key
        flush(store)
    compaction = log.compact(1_800_000_000_000, 1 << 20)
    while True:
        for _ in compaction.work():
            pass
        if not compaction.swap():
            break
    flush(store)
    left = values(log)
    assert left[-1] == b"39" and len(left) < 10
    append(log, b"40")
    flush(store)
    successor = join(2)
    take_over(successor, 1)
    found = successor.partition(topic_id, 0)
    assert values(found) == [*left, b"40"] and found.end_offset == 41


def test_rows_that_go_by_time_lie_together_and_go_as_a_table(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store, retention_ms=str(8 * DAY_MS))
    kept = store.partition(topic_of(store, name="table", cleanup_policy="compact"), 0)
    log = store.partition(topic_id, 0)
    for number in range(6):
        append(log, b"%d" % number)
        append(kept, b"k")
        flush(store)
    (time_partition,) = time_partitions(store)
    assert 9 * 24 < time_partition - time.time() / 3600 <= 10 * 24, "a whole segment's rows are over by then"
    let_pass(store, time_partition)
    assert log.delete_before(4) == 4, "as retention does"
    flush(store)
    assert rows_in(store, 1) == 6, "nothing is deleted for it"
    assert store.drop_expired_time_partitions() == ["batches_1"]
    assert 1 not in time_partitions(store)
    assert rows_in(store, 0) == 6 + 2, "what its topic keeps for longer by now stays"
    successor = join(2)
    take_over(successor, 1)
    assert values(successor.partition(topic_id, 0)) == [b"4", b"5"]
    append(successor.partition(topic_id, 0), b"6")
    flush(successor)
    assert rows_in(successor, time_partition) == 1


def test_a_time_partition_whose_removal_was_interrupted_is_removed_by_the_next_broker(join: Open) -> None:
    store = join(1)
    log = store.partition(topic_of(store, retention_ms=str(8 * DAY_MS)), 0)
    append(log, b"a")
    flush(store)
    let_pass(store, *time_partitions(store))
    log.delete_before(1)
    with psycopg.connect(store.home.dsn, autocommit=True) as connection, psycopg.connect(store.home.dsn) as reader:
        reader.execute("SELECT count(*) FROM kohort.batches")  # in a transaction: the removal waits for it
        connection.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("ALTER TABLE kohort.batches DETACH PARTITION kohort.batches_1 CONCURRENTLY")
    assert store.drop_expired_time_partitions() == ["batches_1"]


def test_rows_that_retention_drops_early_are_deleted(join: Open) -> None:
    store = join(1)
    log = store.partition(topic_of(store, retention_ms=str(8 * DAY_MS)), 0)
    for _ in range(3):
        append(log, b"a")
        flush(store)
    (time_partition,) = time_partitions(store)
    log.delete_before(2)
    flush(store)
    assert rows_in(store, time_partition) == 1


def test_a_large_append_finds_its_time_partition_too(join: Open) -> None:
    store = join(1)
    log = store.partition(topic_of(store, retention_ms=str(5 * 3_600_000)), 0)
    append(log, b"x" * 3_000_000)
    flush(store)
    (time_partition,) = time_partitions(store)
    assert 5 < time_partition - time.time() / 3600 <= 7, "what is kept for hours is in time partitions of an hour"
    assert rows_in(store, time_partition) == 1


DAY_MS = 86_400_000


def time_partitions(store: PostgresStore) -> list[int]:
    """Those of rows that go by time."""
    with psycopg.connect(store.home.dsn) as connection:
        rows = connection.execute(
            "SELECT substr(relname, 9)::int FROM pg_class WHERE relname ~ '^batches_[0-9]+$'"
        ).fetchall()
    return sorted(hour for (hour,) in rows)


def rows_in(store: PostgresStore, time_partition: int) -> int:
    with psycopg.connect(store.home.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM kohort.batches WHERE drawer = %s", (time_partition,)).fetchone()
    assert row is not None
    return int(row[0])


def let_pass(store: PostgresStore, time_partition: int) -> None:
    """Move the rows of the time partition into one that expired in 1970."""
    with psycopg.connect(store.home.dsn, autocommit=True) as connection:
        connection.execute("SELECT kohort.add_drawer(1)")
        connection.execute("UPDATE kohort.batches SET drawer = 1 WHERE drawer = %s", (time_partition,))
        connection.execute(f"DROP TABLE kohort.batches_{time_partition}".encode())


def test_rows_of_a_deleted_topic_go(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store)
    append(store.partition(topic_id, 0), b"a")
    flush(store)
    store.delete_topic(topic_id)
    flush(store)
    with psycopg.connect(store.home.dsn) as connection:
        for table in ("batches", "partitions"):
            assert connection.execute(f"SELECT count(*) FROM kohort.{table}".encode()).fetchone() == (0,)


def test_two_brokers_with_one_node_id_are_one_too_many(join: Open) -> None:
    join(1)
    with pytest.raises(DataDirectoryInUse, match="already has a broker with node id 1"):
        join(1)


def test_tables_of_another_version_are_refused_untouched(dsn: str) -> None:
    ClusterDatabase(dsn, 1).close()
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE kohort.cluster SET format = 99")
    with pytest.raises(BadDatabase, match="have format 99, this version of kohort reads 3; use"):
        ClusterDatabase(dsn, 1)


def test_tables_of_an_older_version_are_made_this_ones_when_its_brokers_have_ended(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store, cleanup_policy="compact")
    append(store.partition(topic_id, 0), b"a", b"b")
    flush(store)
    make_older(store.home.dsn)
    with pytest.raises(BadDatabase, match=r"brokers of an older version .* \(1\); stop all of them first"):
        ClusterDatabase(store.home.dsn, 2)
    with psycopg.connect(store.home.dsn) as connection:
        assert connection.execute("SELECT format FROM kohort.cluster").fetchone() == (1,), "nothing is touched"
        connection.execute("UPDATE kohort.brokers SET lease_until = now() - interval '1 s'")
    successor = join(2)
    take_over(successor, 1)
    log = successor.partition(topic_id, 0)
    append(log, b"c")
    flush(successor)
    assert values(log) == [b"a", b"b", b"c"]


def test_tables_of_version_0_1_are_made_ones_that_its_brokers_refuse(join: Open) -> None:
    store = join(1)
    topic_id = topic_of(store)
    with psycopg.connect(store.home.dsn) as connection:
        row = connection.execute("SELECT image FROM kohort.cluster").fetchone()
        assert row is not None
        older = json.dumps(json.loads(row[0])["image"])
        connection.execute("UPDATE kohort.cluster SET format = 2, image = %s", (older,))
    with pytest.raises(BadDatabase, match=r"brokers of an older version .* \(1\); stop all of them first"):
        ClusterDatabase(store.home.dsn, 2)
    with psycopg.connect(store.home.dsn) as connection:
        assert connection.execute("SELECT format, image FROM kohort.cluster").fetchone() == (2, older)
        connection.execute("UPDATE kohort.leases SET until = now() - interval '1 s'")
    home = ClusterDatabase(store.home.dsn, 2)
    assert topic_id in home.read().topics
    home.close()
    with psycopg.connect(store.home.dsn) as connection:
        row = connection.execute("SELECT format, image FROM kohort.cluster").fetchone()
    assert row is not None
    # Version 0.1 reads format 2 alone, and an image whose outermost object has the topics.
    assert row[0] == 3 and "topics" not in json.loads(row[1])


def make_older(dsn: str) -> None:
    """The tables as the first version had them."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            """
            ALTER TABLE kohort.brokers ADD lease_until timestamptz;
            UPDATE kohort.brokers b SET lease_until = l.until FROM kohort.leases l WHERE l.node_id = b.node_id;
            DROP TABLE kohort.leases;
            ALTER TABLE kohort.batches DETACH PARTITION kohort.batches_kept;
            DROP TABLE kohort.batches;
            ALTER TABLE kohort.batches_kept DROP CONSTRAINT batches_kept_pkey;
            ALTER TABLE kohort.batches_kept DROP drawer;
            ALTER TABLE kohort.batches_kept RENAME TO batches;
            ALTER TABLE kohort.batches ADD CONSTRAINT batches_pkey PRIMARY KEY (topic_id, partition, base_offset);
            DROP FUNCTION kohort.append, kohort.beat, kohort.drawer, kohort.add_drawer;
            CREATE FUNCTION kohort.append() RETURNS void LANGUAGE sql AS '';
            CREATE FUNCTION kohort.beat() RETURNS void LANGUAGE sql AS '';
            UPDATE kohort.cluster SET format = 1;
            """
        )


def test_somebody_elses_schema_is_refused_untouched(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE SCHEMA kohort")
    with pytest.raises(BadDatabase, match="schema named kohort that is not a cluster's"):
        ClusterDatabase(dsn, 1)
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'kohort'").fetchone()
    assert found == (0,)


def test_a_database_of_another_cluster_than_the_one_asked_for_is_refused_untouched(dsn: str) -> None:
    ClusterDatabase(dsn, 1, "A" * 22).close()
    with pytest.raises(BadDatabase, match=f"belongs to cluster {'A' * 22}, not {'B' * 22}"):
        ClusterDatabase(dsn, 1, "B" * 22)
    again = ClusterDatabase(dsn, 1, "A" * 22)
    assert again.read().nodes == {}
    again.close()


def test_a_database_that_became_another_clusters_is_not_followed(join: Open) -> None:
    store = join(1)
    with psycopg.connect(store.home.dsn) as connection:
        connection.execute("UPDATE kohort.cluster SET cluster_id = 'another'")
    with pytest.raises(Fenced, match="no longer belongs to cluster"):
        store.home.read()


@pytest.mark.parametrize(
    "bad", ["host=/nowhere user=kohort", "not a connection string", "postgresql://[", "user=kohort foo=bar"]
)
def test_a_missing_database_is_reported_in_a_sentence(bad: str) -> None:
    with pytest.raises(BadDatabase) as told:
        ClusterDatabase(bad, 1)
    assert "\n" not in str(told.value)
