"""Exactly-once sink for Parquet files on a POSIX file system, based on the names of the files alone.

The files of a partition form a chain: the name of each is the offset at which its predecessor ends,
and its footer has its own end and its writer. A hard link creates the name, and fails if the name
exists: if two writers try to follow the same file, one succeeds and the other reads the chain again.
Offsets of a recreated topic begin at 0 again: from there on, names are increased by the footer's
`base`.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kohort.errors import KohortError
from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, Writers, admitted, partitions_of

_FOOTER = b"kohort"


@dataclass(frozen=True, slots=True)
class _Last:
    """Last file of a partition's chain."""

    fence: Fence
    base: int


class ParquetSink:
    """Sink for files below `directory`, in one folder per partition, which Spark and pyarrow read as columns."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def write(self, rows: pa.Table, writers: Writers) -> int:
        tps = partitions_of(rows)
        ends = {tp: last.fence for tp in tps if (last := self._last(tp)) is not None}
        admitted(rows, writers, ends)  # rejects all rows before anything is written
        written = 0
        for tp in tps:
            mine = rows.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
            while True:
                last = self._last(tp)
                new, after = admitted(mine, writers, {} if last is None else {tp: last.fence})
                if not after or self._link(tp, last, after[tp], new):
                    break
            written += new.num_rows
        return written

    def _last(self, tp: TopicPartition) -> _Last | None:
        """Return the end of the partition's chain, or None if it has no files."""
        last = max(self._folder(tp).glob("*.parquet"), default=None)
        if last is None:
            return None
        footer = (pq.read_schema(last).metadata or {}).get(_FOOTER)
        if footer is None:
            raise KohortError(f"{last} was not written by this sink: it needs a directory of its own.")
        found = json.loads(footer)
        fence = Fence(found["next"], found["epoch"], found.get("owner"), found.get("topic_id"))
        return _Last(fence, found.get("base", 0))

    def _folder(self, tp: TopicPartition) -> Path:
        return self._directory / f"topic={tp.topic}" / f"partition={tp.partition}"

    def _link(self, tp: TopicPartition, last: _Last | None, after: Fence, rows: pa.Table) -> bool:
        """Write the rows as the next file of the chain; return False if another writer was faster."""
        folder = self._folder(tp)
        folder.mkdir(parents=True, exist_ok=True)
        name = base = 0
        if last is not None:
            name, base = last.base + last.fence.next, last.base
            if after.next <= last.fence.next or last.fence.topic_id not in (None, after.topic_id):
                base = name
        values = {
            "next": after.next,
            "epoch": after.number,
            "owner": after.owner,
            "topic_id": after.topic_id,
            "base": base,
        }
        footer = json.dumps(values)
        rows = rows.drop_columns(["topic", "partition"]).sort_by("offset")
        draft = folder / f".{uuid.uuid4().hex}"  # readers skip such names
        try:
            with draft.open("wb") as file:
                pq.write_table(rows.replace_schema_metadata({_FOOTER: footer.encode()}), file)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, folder / f"{name:020}.parquet")
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        _sync(folder)
        return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
