"""Appends until it is killed; prints each append's partition, offset and seed when it is acknowledged.

Run as `python -m tests.log.writer DIRECTORY ROUND`.
"""

import random
import sys

from kohort.log import FileStore
from kohort.wire.batches import encode_pairs

NAME, PARTITIONS = "orders", 3
CONFIGS = {"segment.bytes": "20000"}


def value_of(seed: int) -> bytes:
    chance = random.Random(seed)
    return chance.randbytes(chance.choice([10, 100, 3000]))


def main(directory: str, round_number: int) -> None:
    store = FileStore(directory)
    topic = store.topics()[NAME]
    chance = random.Random(round_number)
    while pending_round(store, [store.partition(topic.topic_id, n) for n in range(PARTITIONS)], chance):
        pass


def pending_round(store: FileStore, logs: list, chance: random.Random) -> bool:  # type: ignore[type-arg]
    sent = []
    for _ in range(chance.randint(1, 12)):
        number, seed = chance.randrange(PARTITIONS), chance.getrandbits(40)
        offset = logs[number].append(encode_pairs([(b"%d" % seed, value_of(seed))], 1), logs[number].leader_epoch)
        sent.append(f"{number} {offset} {seed}\n")
    pending = store.take()
    assert pending is not None
    store.sync(pending)
    store.settle(pending)
    sys.stdout.write("".join(sent))
    sys.stdout.flush()
    return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
