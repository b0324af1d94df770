"""Write Parquet files from columns, without a Python object per record.

    python examples/batch_to_parquet.py flights lake/ [--bootstrap HOST:PORT] [--rows N] [--max N]

The name of a file contains the partition and its offsets. Positions are committed when a file is complete: after a
crash in between, the same records are written again, from the same offset. Needs the extra `fast`.
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kohort import TopicPartition
from kohort.blocking import Consumer


class Pending:
    """Batches of one partition that are not written yet."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: list[pa.RecordBatch] = []

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def write(self, directory: Path) -> int:
        """Write one file completely or not at all; return the offset after its last record."""
        table = pa.Table.from_batches(self.batches)
        first, last = table["offset"][0].as_py(), table["offset"][-1].as_py()
        name = f"{self.partition.topic}-{self.partition.partition:05d}-{first:020d}.parquet"
        unfinished = directory / f".{name}"
        pq.write_table(table, unfinished, compression="zstd")
        unfinished.rename(directory / name)
        self.batches.clear()
        return int(last) + 1


def run(topic: str, directory: Path, bootstrap: str, rows: int, most: int | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    pending: dict[TopicPartition, Pending] = {}

    def write(least: int, partitions: frozenset[TopicPartition]) -> None:
        """Write files for the partitions with at least `least` rows, and commit their ends."""
        full = [batches for batches in pending.values() if batches.partition in partitions and batches.rows >= least]
        consumer.commit({batches.partition: batches.write(directory) for batches in full})

    def forget(partitions: frozenset[TopicPartition]) -> None:
        for partition in partitions:
            pending.pop(partition, None)

    def revoked(partitions: frozenset[TopicPartition]) -> None:
        write(1, partitions)
        forget(partitions)

    with Consumer(
        bootstrap_servers=bootstrap, group_id=f"{topic}-lake", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe([topic], on_revoked=revoked, on_lost=forget)
        seen = 0
        while most is None or seen < most:
            for partition, records in consumer.poll_batches():
                pending.setdefault(partition, Pending(partition)).batches.append(records)
                seen += records.num_rows
            write(rows, consumer.assignment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--rows", type=int, default=100_000, help="of a file, at least")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()
    run(options.topic, options.directory, options.bootstrap, options.rows, options.max)


if __name__ == "__main__":
    main()
