"""Exactly once into PostgreSQL: the offsets are stored in the same transaction as the results.

    python examples/exactly_once_postgres.py payments "dbname=shop" [--bootstrap HOST:PORT] [--max N]

The offset in the database counts, not the group's: a new owner of a partition seeks to it. If a former owner has not
noticed yet that it lost the partition, it finds another offset than it expects, and its transaction is rolled back.
Needs psycopg.
"""

import argparse

import psycopg

from kohort import ConsumerRecord, KohortError, TopicPartition
from kohort.blocking import Consumer

_TABLES = """
CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    topic text, partition int, next_offset bigint NOT NULL, PRIMARY KEY (topic, partition)
);
"""


class Stale(KohortError):
    """Another member has continued with the partition."""


def position(database: psycopg.Connection, partition: TopicPartition) -> int:
    """Return the offset at which to continue, from the database."""
    row = database.execute(
        "SELECT next_offset FROM positions WHERE (topic, partition) = (%s, %s)", partition
    ).fetchone()
    return row[0] if row else 0


def store(database: psycopg.Connection, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
    """Add the records' amounts to their accounts and advance the offset, in one transaction."""
    first, last = records[0].offset, records[-1].offset
    with database.transaction():
        database.execute("INSERT INTO positions VALUES (%s, %s, 0) ON CONFLICT DO NOTHING", partition)
        moved = database.execute(
            "UPDATE positions SET next_offset = %s WHERE (topic, partition) = (%s, %s) AND next_offset <= %s",
            (last + 1, *partition, first),
        )
        if not moved.rowcount:
            raise Stale(f"{partition} was processed beyond offset {first} by another member.")
        for record in records:
            database.execute(
                "INSERT INTO balances VALUES (%s, %s)"
                " ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents",
                ((record.key or b"").decode(), int(record.value or b"0")),
            )


def run(topic: str, dsn: str, bootstrap: str, most: int | None) -> None:
    with psycopg.connect(dsn, autocommit=True) as database:
        database.execute(_TABLES)

        def assigned(partitions: frozenset[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, position(database, partition))

        with Consumer(bootstrap_servers=bootstrap, group_id=f"{topic}-balances", enable_auto_commit=False) as consumer:
            consumer.subscribe([topic], on_assigned=assigned)
            stored = 0
            while most is None or stored < most:
                by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
                for record in consumer.poll():
                    by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
                for partition, records in by_partition.items():
                    store(database, partition, records)
                    stored += len(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", help="records of account (key) and cents (value)")
    parser.add_argument("dsn", help="of the database, as psycopg takes it")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()
    run(options.topic, options.dsn, options.bootstrap, options.max)


if __name__ == "__main__":
    main()
