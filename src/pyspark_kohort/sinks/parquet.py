"""Exactly once into Parquet files on a POSIX file system, by the files' names alone.

The files of a partition are a chain: each is named by the offset where its predecessor ends, and says in its footer
where it ends itself, and by whose epoch. A name is taken by a hard link, which fails where the name is taken already:
so of two writers that would follow the same file one wins, and the other looks again.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Epochs, Fence, admitted, partitions_of

_FOOTER = b"kohort"


class ParquetSink:
    """Files below `directory`, a folder for each partition, which Spark and pyarrow read as columns."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def write(self, rows: pa.Table, epochs: Epochs) -> int:
        written = 0
        for tp in partitions_of(rows):
            mine = rows.filter((pc.field("topic") == tp.topic) & (pc.field("partition") == tp.partition))
            while True:
                fence = self.fence(tp)
                new, after = admitted(mine, epochs, {} if fence is None else {tp: fence})
                if not after or self._link(tp, fence, after[tp], new):
                    break
            written += new.num_rows
        return written

    def fence(self, tp: TopicPartition) -> Fence | None:
        """Where the chain of that partition ends."""
        last = max(self._folder(tp).glob("*.parquet"), default=None)
        if last is None:
            return None
        footer = json.loads((pq.read_schema(last).metadata or {})[_FOOTER])
        return Fence(footer["next"], footer["epoch"])

    def _folder(self, tp: TopicPartition) -> Path:
        return self._directory / f"topic={tp.topic}" / f"partition={tp.partition}"

    def _link(self, tp: TopicPartition, fence: Fence | None, after: Fence, rows: pa.Table) -> bool:
        """Whether the rows are the chain's next file now."""
        folder = self._folder(tp)
        folder.mkdir(parents=True, exist_ok=True)
        footer = json.dumps({"next": after.next, "epoch": after.epoch})
        rows = rows.drop_columns(["topic", "partition"]).sort_by("offset")
        draft = folder / f".{uuid.uuid4().hex}"  # a name that readers skip
        try:
            with draft.open("wb") as file:
                pq.write_table(rows.replace_schema_metadata({_FOOTER: footer.encode()}), file)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, folder / f"{fence.next if fence else 0:020}.parquet")
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
