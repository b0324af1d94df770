"""A data directory with one file changed by a disk, a crash or a person: it opens, or a sentence says why not."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from crc32c import crc32c

from kohort.errors import KohortError
from kohort.log import CorruptBatch, FileStore, PartitionLog, PartitionStopped, Topic
from kohort.wire.batches import batches
from tests.fuzz.records import sealed
from tests.fuzz.rules import Target
from tests.log.logs import append, flush, topic_in

FILES = (
    "kohort.json",
    "topics.json",
    "configs.json",
    "orders-0/{last}.log",
    "orders-0/{first}.log",
    "orders-0/{first}.index",
    "orders-0/start-offset",
    "orders-0/compacted-to",
    "orders-0/{first}.log.cleaned",
)
"""The first byte of an input says which of these the rest is."""
_LOGS = (3, 4)
_SIDECAR = 5
_CLEANED = 8
_DECIDED = 128
"""A first byte from here on: what compaction left, together with its decision."""
_CRC_AT, _CHECKED_FROM = 4, 8
"""Of a sidecar."""


def run_directory(data: bytes) -> object:
    """Open the directory, read all that is served, append one record and read that: as after any start."""
    if not data:
        return None
    which = data[0] % len(FILES)
    with tempfile.TemporaryDirectory(dir=_fast()) as copy:
        root = Path(copy) / "data"
        shutil.copytree(_template(), root)
        path = root / _names()[which]
        path.write_bytes(data[1:])
        if which in _LOGS:
            # Bytes that rot under a sidecar are tests/log/test_damage.py's; these are what a crash left.
            path.with_suffix(".index").unlink(missing_ok=True)
        if which == _CLEANED and data[0] >= _DECIDED:
            (root / "orders-0" / f"{0:020d}-{_bases()[1]:020d}.swap").touch()
        store = FileStore(root)
        try:
            return [_use(store, topic) for topic in store.topics().values()]
        finally:
            store.close()


def _use(store: FileStore, topic: Topic) -> list[int]:
    """Return the records of each partition, including those that are appended then."""
    counts = []
    # A topic of a billion partitions opens none of them before a request needs it.
    for number in range(min(topic.partitions, 2)):
        log = store.partition(topic.topic_id, number)
        counts.append(_read(log))
        with contextlib.suppress(PartitionStopped):
            base = append(log, b"after")
            flush(store)
            assert log.end_offset == base + 1
    return counts


def _read(log: PartitionLog) -> int:
    """How many records are served, past those that are damaged; offsets only rise."""
    position, found = log.start_offset, 0
    while position < log.end_offset:
        try:
            parts = log.read(position, 1 << 20)
        except CorruptBatch as error:
            assert error.next_offset > position, "who goes on behind the damage goes back"
            position = error.next_offset
            continue
        if not parts:
            break
        for part in parts:
            for _, header in batches(part):
                assert header.next_offset > position, "who reads on goes back"
                position = header.next_offset
                found += header.record_count
    return found


def _fast() -> str | None:
    """Where files cost no disk, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def _template() -> Path:
    """A directory with a full segment, a growing one, a sidecar, producers and kept configs."""
    root = Path(tempfile.mkdtemp(dir=_fast())) / "data"
    store = FileStore(root)
    log = store.partition(topic_in(store, partitions=2, configs={"segment.bytes": "1024"}), 0)
    for number in range(9):
        append(log, b"%02d" % number * 40, b"more", producer_id=7, producer_epoch=0, base_sequence=2 * number)
        flush(store)
    store.keep_configs("broker", "", {"message.max.bytes": "2000000"})
    flush(store)
    store.close()
    return root


@cache
def _bases() -> list[int]:
    return sorted(int(path.stem) for path in (_template() / "orders-0").glob("*.log"))


@cache
def _names() -> list[str]:
    first, last = (f"{base:020d}" for base in (_bases()[0], _bases()[-1]))
    return [name.format(first=first, last=last) for name in FILES]


@cache
def directory_seeds() -> list[bytes]:
    """Each file as it is."""
    made = {_names()[6]: b"3", _names()[7]: b"4", _names()[8]: (_template() / _names()[4]).read_bytes()}
    contents = [(made.get(name) or (_template() / name).read_bytes()) for name in _names()]
    seeds = [bytes([which]) + content for which, content in enumerate(contents)]
    return [*seeds, bytes([_CLEANED + 15 * len(FILES)]) + contents[_CLEANED]]


def mended(data: bytes, dice: Random) -> bytes:
    """Give sidecars and batches the checksum of their bytes; other files have none."""
    which = data[0] % len(FILES) if data else 0
    if which == _SIDECAR and len(data) > 1 + _CHECKED_FROM and dice.random() < 0.9:
        body = data[1 + _CHECKED_FROM :]
        return data[: 1 + _CRC_AT] + struct.pack("=I", crc32c(body)) + body
    if which == _CLEANED or which in _LOGS:
        first = 12 + int.from_bytes(data[9:13], "big")
        return data[:1] + sealed(data[1 : 1 + first], dice) + data[1 + first :] if first < len(data) else data
    return data


TARGETS = (
    # OSError: a log that is damaged beyond one batch says so in one, at each read. A store's buffers are its own.
    Target(
        "data-directory",
        run_directory,
        (KohortError, OSError),
        directory_seeds,
        mend=mended,
        grant=lambda data: 4 << 20,
    ),
)
