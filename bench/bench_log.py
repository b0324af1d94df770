"""What the file store makes of the disk, beside plain writes to one file in the same run: `python bench/run.py log`.

The plain side appends the same bytes to one file and calls fdatasync as often; both are run in turn, the best round
counts.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from kohort.log import FileStore, PartitionLog, Topic
from kohort.wire.batches import BatchBuilder, batches, decode_records, encode_pairs

NOW = 1_700_000_000_000
ROUNDS = 3
MEGABYTE = 1 << 20


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    root = Path(tempfile.mkdtemp(prefix="kohort-bench-", dir="/var/tmp"))
    try:
        touch_memory(root)
        store = FileStore(root / "data")
        topic = Topic(uuid4(), "bench", 60, {})
        store.create_topic(topic)
        logs = [store.partition(topic.topic_id, number) for number in range(topic.partitions)]
        bench_large(store, logs[0], root)
        bench_small(store, logs[1:2], root, "to one partition")
        bench_small(store, logs[2:52], root, "over 50 partitions")
        bench_reads(logs[0], root)
        bench_opening(store, root)
        bench_records()
    finally:
        shutil.rmtree(root)


def touch_memory(root: Path) -> None:
    """Fill and free some page cache: memory that a virtual machine never used before costs ten times a plain write."""
    block = bytes(MEGABYTE)
    with (root / "touched").open("wb", buffering=0) as file:
        for _ in range(48):
            os.writev(file.fileno(), [block] * 8)
    (root / "touched").unlink()


def bench_large(store: FileStore, log: PartitionLog, root: Path) -> None:
    """64 MB in batches of 1 MB, eight to a sync."""
    builder = BatchBuilder()
    while builder.size < MEGABYTE - 1100:
        builder.append(NOW, b"key", os.urandom(1000))
    batch = bytes(builder.build())  # as a produce request holds them: not ours to change
    commits, per_commit = 8, 8
    size = commits * per_commit * len(batch) / 1e6

    def ours() -> None:
        for _ in range(commits):
            for _ in range(per_commit):
                log.append(memoryview(batch), log.leader_epoch)
            commit(store)

    def plain() -> None:
        with (root / "plain").open("ab", buffering=0) as file:
            for _ in range(commits):
                for _ in range(per_commit):
                    file.write(batch)
                os.fdatasync(file.fileno())

    ours_at, plain_at = best(ours, plain)
    report("appended in batches of 1 MB, synced every 8", size / ours_at, size / plain_at, "MB/s")


def bench_small(store: FileStore, logs: Sequence[PartitionLog], root: Path, where: str) -> None:
    """Commits of ten offsets: 200 batches to a sync, each encoded, appended and settled."""
    pairs = [(b"\0\1\0\6delays\0\7flights" + number.to_bytes(4), b"\0\3" + bytes(26)) for number in range(10)]
    commits, per_commit = 40, 200

    def ours() -> None:
        for _ in range(commits):
            for number in range(per_commit):
                log = logs[number % len(logs)]
                log.append(encode_pairs(pairs, NOW), log.leader_epoch)
            commit(store)

    def plain() -> None:
        batch = bytes(encode_pairs(pairs, NOW))
        with (root / "plain").open("ab", buffering=0) as file:
            for _ in range(commits):
                file.write(b"".join([batch] * per_commit))
                os.fdatasync(file.fileno())

    ours_at, plain_at = best(ours, plain)
    appends = commits * per_commit
    report(f"appends of 10 offsets {where}, 200 to a sync", appends / ours_at, appends / plain_at, "appends/s")


def bench_reads(log: PartitionLog, root: Path) -> None:
    """Everything, a megabyte at a time, from the page cache."""
    size = log.size / 1e6

    def ours() -> None:
        offset = log.start_offset
        while parts := log.read(offset, MEGABYTE):
            offset = last_offset(parts[-1])

    def plain() -> None:
        path = next((root / "data" / "bench-0").glob("*.log"))
        with path.open("rb", buffering=0) as file:
            while file.read(MEGABYTE):
                pass

    ours_at, plain_at = best(ours, plain)
    report("read by 1 MB", size / ours_at, size / plain_at, "MB/s")


def bench_opening(store: FileStore, root: Path) -> None:
    """After a crash, with the log of this run; and after a clean close."""
    size = store.partition(store.topics()["bench"].topic_id, 0).size / 1e6
    for how in ("a crash", "a clean close"):
        if how == "a crash":
            store.abandon()
        else:
            store.close()
        begun = time.perf_counter()
        store = FileStore(root / "data")
        store.partition(store.topics()["bench"].topic_id, 0)
        taken = time.perf_counter() - begun
        print(f"{f'opened after {how}, {size:.0f} MB in the partition':55} {taken * 1000:>10,.1f} ms")
    store.close()


def bench_records() -> None:
    """Records of 100 bytes, in plain Python."""
    builder = BatchBuilder()
    for number in range(5000):
        builder.append(NOW + number, b"N%05d" % number, bytes(100))
    batch = builder.build()
    pairs = [(b"k" * 30, b"v" * 28)] * 1000
    decode_at, encode_at = best(lambda: decode_records(batch), lambda: encode_pairs(pairs, NOW))
    print(f"{'records decoded':55} {5000 / decode_at:>10,.0f} /s")
    print(f"{'pairs encoded':55} {1000 / encode_at:>10,.0f} /s")


def commit(store: FileStore) -> None:
    pending = store.take()
    assert pending is not None
    store.sync(pending)
    store.settle(pending)


def last_offset(part: bytes | bytearray | memoryview) -> int:
    return max(header.next_offset for _, header in batches(part))


def best(*sides: Callable[[], object]) -> list[float]:
    """The shortest time of each, run in turn so that a noisy machine disturbs both alike."""
    times = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for number, side in enumerate(sides):
            begun = time.perf_counter()
            side()
            times[number] = min(times[number], time.perf_counter() - begun)
    return times


def report(what: str, ours: float, plain: float, unit: str) -> None:
    print(f"{what:55} {ours:>10,.0f} {unit:10} plain file {plain:>10,.0f}   ratio {ours / plain:.2f}")


if __name__ == "__main__":
    main()
