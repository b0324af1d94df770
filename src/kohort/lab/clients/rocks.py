"""Persistent counts in RocksDB, with a database per partition.

Kafka Streams keeps the checkpoint in a file beside the state, and discards the state if it ended
without writing one. Here the checkpoint is a key of the same database, and one batch writes it with
its counts, as KIP-892 plans for Streams. Whenever a process ends, the state on disk is the
changelog up to the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kohort.errors import KohortError, install_extra
from kohort.lab.clients.counts import Counts

try:
    from rocksdict import Options, Rdict, WriteBatch
except ImportError as missing:
    raise KohortError(f"The store rocksdb needs rocksdict: {install_extra('lab')}.") from missing

_POSITION = b"p"
_KEY = b"k"
"""Prefix of each counted key, which distinguishes it from the position."""
_WRITE_BUFFER = 4 << 20
"""Write buffer per database, in bytes. RocksDB's default of 64 MB suits one database, not one per partition."""


class RocksCounts:
    """Counts of one partition, in a directory of its own that no other process has open."""

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


class RocksCountStore:
    """Store in one member's directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._kept = sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())

    def open(self, partition: int) -> Counts:
        return RocksCounts(self._directory / str(partition))

    def kept(self) -> list[int]:
        return list(self._kept)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_WRITE_BUFFER)
    return options
