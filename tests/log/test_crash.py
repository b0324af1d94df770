"""A writer is killed with SIGKILL again and again; what it had acknowledged is there each time."""

import random
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from kohort.log import FileStore, Topic
from tests.log.logs import records
from tests.log.writer import CONFIGS, NAME, PARTITIONS, value_of

ROUNDS = 8


def test_every_acknowledged_append_survives_kills(tmp_path: Path) -> None:
    topic = Topic(uuid4(), NAME, PARTITIONS, CONFIGS)
    store = FileStore(tmp_path)
    store.create_topic(topic)
    store.close()
    acknowledged: dict[tuple[int, int], int] = {}
    chance = random.Random(1)
    for round_number in range(ROUNDS):
        acknowledged.update(killed_writer(tmp_path, round_number, lines=chance.randint(1, 400)))
        store = FileStore(tmp_path)
        for number in range(PARTITIONS):
            held = {
                record.offset: (record.key, record.value) for record in records(store.partition(topic.topic_id, number))
            }
            assert list(held) == list(range(len(held)))
            for (partition, offset), seed in acknowledged.items():
                if partition == number:
                    assert held[offset] == (b"%d" % seed, value_of(seed))
        # Not closed, so the next round recovers too.
        store.abandon()
    assert len(acknowledged) > 100 * ROUNDS


def killed_writer(directory: Path, round_number: int, lines: int) -> dict[tuple[int, int], int]:
    """Start the writer, kill it after that many acknowledgements, and return all that it made."""
    command = [sys.executable, "-m", "tests.log.writer", str(directory), str(round_number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        printed += process.stdout.read().splitlines(keepends=True)
    numbers = (line.split() for line in printed if line.endswith("\n"))
    return {(int(partition), int(offset)): int(seed) for partition, offset, seed in numbers}
