"""Counts in RocksDB, a database for each partition, that outlive their process.

Kafka Streams keeps the checkpoint in a file beside the state, and throws the state away where it ended without writing
one. Here a checkpoint is a key of the same database and is written in one batch with the counts that belong to it, as
KIP-892 plans it for Streams: whenever a process ends, what is on disk is the changelog up to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kohort.errors import KohortError
from kohort.lab.clients.counts import Counts

try:
    from rocksdict import Options, Rdict, WriteBatch
except ImportError as missing:
    raise KohortError("--store rocksdb needs rocksdict: pip install 'kohort[lab]'.") from missing

_POSITION = b"p"
_KEY = b"k"
"""Before each counted key, so that none is taken for the position."""
_WRITE_BUFFER = 4 << 20
"""Bytes per database: RocksDB's own 64 MB are meant for one, not for one per partition."""


class RocksCounts:
    """Of one partition, in a directory of its own, which no other process has open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.position: int | None = None
        self._open()

    def get(self, key: bytes) -> int | None:
        value = self._db.get(_KEY + key)
        return None if value is None else int(value)

    def take(self, changes: Mapping[bytes, int], position: int | None) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, count in changes.items():
            batch.put(_KEY + key, b"%d" % count)
        if position is not None:
            batch.put(_POSITION, b"%d" % position)
        self._db.write(batch)
        self.position = position

    def clear(self) -> None:
        self._db.close()
        Rdict.destroy(str(self._directory), _options())
        self._open()

    def close(self) -> None:
        self._db.close()  # flushes

    def _open(self) -> None:
        self._db = Rdict(str(self._directory), _options())
        position = self._db.get(_POSITION)
        self.position = None if position is None else int(position)


class RocksShelf:
    """One member's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._kept = sorted(int(one.name) for one in directory.iterdir() if one.name.isdigit())

    def open(self, partition: int) -> Counts:
        return RocksCounts(self._directory / str(partition))

    def kept(self) -> list[int]:
        return list(self._kept)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_WRITE_BUFFER)
    return options
