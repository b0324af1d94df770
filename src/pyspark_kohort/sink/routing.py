"""Assignment of rows to topics and partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.columns import Column, place_keys
from kohort.errors import KohortError
from kohort.model import TopicPartition

_SMALL = 1 << 15
"""Number of partitions whose numbers have 16 bits."""


class Router:
    """Router of the rows of one task, batch by batch.

    A row is written to its `partition`, if it has one. Otherwise its key determines the partition as
    in the Java producer. Rows without either are written to one partition per batch, a different one
    for each batch. The result depends only on `seed` and on the rows, so a retried task writes the
    same.
    """

    def __init__(self, topic: str | None, count: Callable[[str], int], seed: int) -> None:
        self._topic = topic
        self._count = count
        self._turn = seed

    def route(self, batch: pa.RecordBatch, key: Column) -> Iterator[tuple[TopicPartition, Any]]:
        """Yield the partitions that receive rows of this batch, each with its row numbers (int64, ascending)."""
        for topic, rows in self._topics(batch):
            places = self._places(topic, batch, key)[rows]
            # numpy sorts numbers of 16 bits by radix, several times as fast as larger ones.
            order = np.argsort(places.astype(np.int16) if places.max(initial=0) < _SMALL else places, kind="stable")
            ends = np.flatnonzero(np.diff(places[order])) + 1
            for some in np.split(rows[order], ends):
                if len(some):
                    yield TopicPartition(topic, int(places[np.searchsorted(rows, some[0])])), some
        self._turn += 1

    def _topics(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
        if self._topic is not None:
            yield self._topic, np.arange(batch.num_rows, dtype=np.int64)
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise KohortError("A row's topic is null, and the option topic is not set.")
        codes: Any = pc.dictionary_encode(topics)
        numbers = codes.indices.to_numpy()
        for number, name in enumerate(codes.dictionary.to_pylist()):
            yield name, np.flatnonzero(numbers == number).astype(np.int64)

    def _places(self, topic: str, batch: pa.RecordBatch, key: Column) -> Any:
        count = self._count(topic)
        places = np.full(batch.num_rows, self._turn % count, np.int32)
        place_keys(key, count, places)
        if "partition" in batch.schema.names:
            column: Any = batch.column("partition")
            given = column.fill_null(-1).to_numpy()
            asked = column.is_valid().to_numpy(zero_copy_only=False)
            if (wrong := given[asked & ((given < 0) | (given >= count))]).size:
                raise KohortError(f"A row's partition is {wrong[0]}, and topic {topic} has {count}.")
            places = np.where(asked, given, places).astype(np.int32)
        return places
