"""Exactly-once sink for an Iceberg table through PyIceberg, without a jar: the fences are properties of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, Writers, admitted, partitions_of

_RETRIES = "commit.retry.num-retries"


class IcebergSink:
    """Sink for an existing table. `load` reloads it, as in `lambda: catalog.load_table("flights.delays")`."""

    def __init__(self, load: Callable[[], Table], name: str = "kohort") -> None:
        self._load = load
        self._name = name

    def write(self, rows: pa.Table, writers: Writers) -> int:
        tps = partitions_of(rows)
        while True:
            table = self._load()
            new, after = admitted(rows, writers, self._fences(table, tps))
            if not after:
                return 0
            # PyIceberg would retry an append on top of a concurrent commit, which may have moved the fences.
            # This changes only this copy of the properties; the table keeps its own.
            table.metadata.properties[_RETRIES] = "0"
            transaction = table.transaction()
            transaction.append(new.cast(table.schema().as_arrow()))
            transaction.set_properties({self._key(tp): _text(fence) for tp, fence in after.items()})
            try:
                transaction.commit_transaction()
            except CommitFailedException:
                continue
            return new.num_rows

    def _fences(self, table: Table, tps: list[TopicPartition]) -> Mapping[TopicPartition, Fence]:
        known = {tp: table.properties.get(self._key(tp)) for tp in tps}
        return {tp: _fence(text) for tp, text in known.items() if text}

    def _key(self, tp: TopicPartition) -> str:
        return f"{self._name}.{tp.topic}.{tp.partition}"


def _text(fence: Fence) -> str:
    return ":".join([str(fence.next), str(fence.number), fence.topic_id or "", fence.owner or ""])


def _fence(text: str) -> Fence:
    """Parse a fence. Kohort 0.1 wrote only the two numbers."""
    end, number, *rest = text.split(":", 3)
    topic_id, owner = rest or ("", "")
    return Fence(int(end), int(number), owner or None, topic_id or None)
