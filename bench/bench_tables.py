"""A million committed offsets: compacted, and loaded into a coordinator: `python bench/run.py tables`.

As they come from 100 groups: ten partitions to a commit, and eight commits to a batch, as many as one sync finds under
load; then one to a batch; then a million keys. CPU seconds of this process.
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from kohort.broker.groups import GroupContents, load
from kohort.coordinator import GroupConfig, GroupShard
from kohort.log import FileStore, PartitionLog, Topic
from kohort.wire.batches import encode_pairs
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

NOW = 1_700_000_000_000
RECORDS = 1_000_000
MAP_BYTES = 128 << 20


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    gc.set_threshold(200_000, 20, 50)  # as a broker's process has it
    for keys, commits in ((1_000, 8), (1_000, 1), (RECORDS, 8)):
        with tempfile.TemporaryDirectory(prefix="kohort-bench-", dir="/var/tmp") as directory:
            store = FileStore(Path(directory) / "data")
            topic = Topic(uuid4(), "offsets", 1, {"cleanup.policy": "compact", "segment.bytes": str(8 << 20)})
            store.create_topic(topic)
            log = store.partition(topic.topic_id, 0)
            for number, batch in enumerate(commits_of(keys, commits)):
                log.append(batch, log.leader_epoch)
                if number % 1000 == 999:
                    flush(store)
            flush(store)
            print(f"{RECORDS:,} offsets of {keys:,} keys, {10 * commits} to a batch: {log.size / 1e6:,.1f} MB")
            print_load(log)
            print_compaction(store, log)
            store.close()


def commits_of(keys: int, commits: int) -> Iterator[bytearray]:
    """Batches of that many commits, the keys in turn."""
    encoded = [
        encode_key(OffsetCommitKey(group=f"group-{n // 10 % 100:02}", topic=f"topic-{n // 1000:03}", partition=n % 10))
        for n in range(keys)
    ]
    for first in range(0, RECORDS, 10 * commits):
        pairs = [
            (encoded[n % keys], encode_value(OffsetCommitValue(offset=n, metadata="", commit_timestamp=NOW + n)))
            for n in range(first, min(first + 10 * commits, RECORDS))
        ]
        yield encode_pairs(pairs, NOW + first)


def print_compaction(store: FileStore, log: PartitionLog) -> None:
    before = log.size
    used, began = time.process_time(), time.perf_counter()
    compaction = log.compact(NOW, MAP_BYTES)
    longest = 0.0
    while True:
        at = time.perf_counter()
        for _ in compaction.work():
            now = time.perf_counter()
            longest, at = max(longest, now - at), now
        if not compaction.swap():
            break
    flush(store)
    used, took = time.process_time() - used, time.perf_counter() - began
    print(
        f"  compacted from {before / 1e6:,.1f} to {log.size / 1e6:,.2f} MB in {used:.2f} CPU s, {took:.2f} s; "
        f"longest step {longest * 1000:.1f} ms"
    )


def print_load(log: PartitionLog) -> None:
    ids = iter(range(RECORDS))
    shard = GroupShard(GroupConfig(), lambda: str(next(ids)))
    used = time.process_time()
    asyncio.run(load("__consumer_offsets-0", log, GroupContents(shard, "__consumer_offsets-0")))
    used = time.process_time() - used
    held = sum(len(of_topic) for group in shard.groups.values() for of_topic in group.offsets.values())
    print(f"  loaded {held:,} offsets in {used:.2f} CPU s, {RECORDS / used / 1e6:.2f} M records/s")


def flush(store: FileStore) -> None:
    while pending := store.take():
        store.sync(pending)
        store.settle(pending)


if __name__ == "__main__":
    main()
