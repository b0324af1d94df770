"""Decoder from raw records of `__consumer_offsets` to rows of the history, in Arrow batches.

This code runs on executors: in the tasks that read, or as `mapInArrow` over raw records from any
source. Records of one shard must be in the order of their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.analytics import kernels
from kohort.analytics.group_rows import CHANGES_OWNERS, Row, group_rows
from kohort.analytics.numbers import dense
from kohort.analytics.runs import Runs
from kohort.analytics.schema import HISTORY, Kind
from kohort.model import UUID, Millis
from kohort.wire.codec import DecodeError

_log = logging.getLogger(__name__)

ROWS_AT_ONCE = 1 << 20
"""Number of commits that are aggregated together. A larger number gives fewer rows for Spark, at 60 bytes per commit.
"""


class Decoder:
    """Decoder from raw batches to rows of the history.

    `unreadable` counts records that could not be decoded, including those with a member's
    subscription or assignment that could not be decoded. Each of them is also a row.
    """

    def __init__(self, window_ms: Millis, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self.unreadable = 0
        self._runs = Runs(window_ms)
        self._most = rows_at_once
        self._rows: list[Row] = []
        self._prefixes: dict[bytes, int] = {}
        self._last_ids = np.zeros(0, np.int64)
        self._reported: set[tuple[str, str]] = set()

    def decode(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode all batches."""
        for batch in batches:
            self._take(batch)
            if len(self._runs) >= self._most:
                yield from self._flush()
        yield from self._flush()

    def _flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._runs.take()
        if self._rows:
            yield pa.RecordBatch.from_pylist(self._rows, schema=HISTORY)
            self._rows = []

    def _take(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        keys, values = batch.column("key"), batch.column("value")
        value_ends, value_bytes = _binary(values)
        kinds, partitions = np.empty(rows, np.int32), np.empty(rows, np.int32)
        positions, times, topic_ids, id_ends = (np.empty(rows, np.int64) for _ in range(4))
        out = (kinds, partitions, positions, times, topic_ids, id_ends)
        kernels.decode_commits(*_binary(keys), value_ends, value_bytes, _valid(values), *out)

        stamps = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
        offsets, shards = batch.column("offset").to_numpy(), batch.column("partition").to_numpy()
        self._take_groups(keys, values, kinds, (shards, offsets, stamps))
        picked = np.flatnonzero(kinds == kernels.COMMIT)
        if not len(picked):
            return
        numbers = self._numbers(keys if len(picked) == rows else keys.take(picked))
        self._runs.add(
            number=numbers,
            partition=partitions[picked],
            shard=shards[picked],
            position=offsets[picked],
            at=np.where(times < 0, stamps, times)[picked],
            committed=positions[picked],
        )
        self._note_topic_ids(numbers, id_ends[picked], topic_ids[picked], value_bytes)

    def _take_groups(self, keys: Any, values: Any, kinds: Any, places: tuple[Any, Any, Any]) -> None:
        """Decode the records that are not commits, one by one."""
        for row in np.flatnonzero(kinds != kernels.COMMIT).tolist():
            shard, position, at = (int(column[row]) for column in places)
            try:
                group_id, found = group_rows(keys[row].as_py() or b"", values[row].as_py())
            except DecodeError as error:
                group_id, found, why = None, [{"kind": Kind.UNREADABLE}], str(error)
            else:
                why = f"group {group_id}: the subscription or assignment of a member"
            if any(row["kind"] is Kind.UNREADABLE for row in found):
                if not self.unreadable:
                    _log.warning("partition %d, offset %d: a record could not be decoded: %s", shard, position, why)
                self.unreadable += 1
            self._rows += [{"shard": shard, "position": position, "at": at} | row for row in found]
            if group_id is not None and kinds[row] in CHANGES_OWNERS:
                self._runs.split(group_id, position)

    def _numbers(self, keys: Any) -> Any:
        """Return, for each commit, the number of its group and topic, which are its key without the partition."""
        encoded = pc.binary_slice(keys, 0, -4).dictionary_encode()
        numbers = np.empty(len(encoded.dictionary), np.int32)
        for i, prefix in enumerate(encoded.dictionary.to_pylist()):
            known = self._prefixes.get(prefix)
            if known is None:
                known = self._prefixes[prefix] = self._runs.number(*_group_and_topic(prefix))
            numbers[i] = known
        return numbers[encoded.indices.to_numpy()]

    def _note_topic_ids(self, numbers: Any, id_ends: Any, at: Any, value_bytes: Any) -> None:
        """Add a row for each new id of a topic: consumer groups refer to topics by id only."""
        self._last_ids.resize(self._runs.numbers, refcheck=False)
        rows = np.flatnonzero((id_ends != 0) & (id_ends != self._last_ids[numbers]))
        _, firsts = np.unique(dense(id_ends[rows], numbers[rows]), return_index=True)
        for row in rows[np.sort(firsts)].tolist():
            begin = int(at[row])
            topic_id = str(UUID(bytes=value_bytes[begin : begin + 16].tobytes()))
            _, topic = self._runs.name(int(numbers[row]))
            if (topic, topic_id) not in self._reported:
                self._reported.add((topic, topic_id))
                self._rows.append({"kind": Kind.TOPIC, "topic": topic, "topic_id": topic_id})
        self._last_ids[numbers[rows]] = id_ends[rows]


def _group_and_topic(prefix: bytes) -> tuple[str, str]:
    """Return group and topic of a commit's key, whose lengths have been checked. Invalid UTF-8 is replaced."""
    end = 4 + int.from_bytes(prefix[2:4], "big")
    return prefix[4:end].decode(errors="replace"), prefix[end + 2 :].decode(errors="replace")


def _binary(array: Any) -> tuple[Any, Any]:
    """Return the ends and the bytes of a binary column, as the kernels take them."""
    _, ends, data = array.buffers()
    first = array.offset
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return np.frombuffer(ends, np.int32)[first : first + len(array) + 1], _read_only(content)


def _read_only(content: Any) -> Any:
    content.flags.writeable = False
    return content


def _valid(array: Any) -> Any:
    if not array.null_count:
        return np.ones(len(array), np.uint8)
    return array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
