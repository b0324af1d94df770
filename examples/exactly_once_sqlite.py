"""Exactly once into SQLite, with only the standard library: see exactly_once_postgres.py.

python examples/exactly_once_sqlite.py payments balances.db [--bootstrap HOST:PORT] [--max N]
"""

import argparse
import sqlite3

from kohort import ConsumerRecord, KohortError, TopicPartition
from kohort.blocking import Consumer

_TABLES = """
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT, part INTEGER, next_offset INTEGER NOT NULL, PRIMARY KEY (topic, part)
);
"""


class Stale(KohortError):
    """Another member has continued with the partition."""


def position(database: sqlite3.Connection, partition: TopicPartition) -> int:
    """Return the offset at which to continue, from the database."""
    row = database.execute("SELECT next_offset FROM positions WHERE topic = ? AND part = ?", partition).fetchone()
    return row[0] if row else 0


def store(database: sqlite3.Connection, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
    """Add the records' amounts to their accounts and advance the offset, in one transaction."""
    first, last = records[0].offset, records[-1].offset
    with database:
        database.execute("INSERT INTO positions VALUES (?, ?, 0) ON CONFLICT DO NOTHING", partition)
        moved = database.execute(
            "UPDATE positions SET next_offset = ? WHERE topic = ? AND part = ? AND next_offset <= ?",
            (last + 1, *partition, first),
        )
        if not moved.rowcount:
            raise Stale(f"{partition} was processed beyond offset {first} by another member.")
        database.executemany(
            "INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents",
            [((record.key or b"").decode(), int(record.value or b"0")) for record in records],
        )


def run(topic: str, path: str, bootstrap: str, most: int | None) -> None:
    database = sqlite3.connect(path, timeout=30)
    database.executescript(_TABLES)

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
    database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic", help="records of account (key) and cents (value)")
    parser.add_argument("path", help="of the database")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()
    run(options.topic, options.path, options.bootstrap, options.max)


if __name__ == "__main__":
    main()
