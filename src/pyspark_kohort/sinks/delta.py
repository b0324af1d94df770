"""Exactly-once sink for a Delta table, without a jar: the fences are application transactions of the table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Fence, QueryClaim, Writers, admitted, partitions_of

_NOBODY = 0


class DeltaSink:
    """Sink for the table at `location`, which the first rows create. `name` separates pipelines."""

    def __init__(self, location: str, name: str = "kohort") -> None:
        self._location = location
        self._name = name

    def write(self, rows: pa.Table, writers: Writers) -> int:
        tps = partitions_of(rows)
        while True:
            table = self._table()
            new, after = admitted(rows, writers, {} if table is None else self._fences(table, tps, writers))
            if not after:
                return 0
            moved = [transaction for tp, fence in after.items() for transaction in self._transactions(tp, fence)]
            try:
                write_deltalake(
                    table or self._location,
                    new,
                    mode="append" if table else "error",
                    # A concurrent commit may have moved the fences: read them again instead of retrying the
                    # commit.
                    commit_properties=CommitProperties(app_transactions=moved, max_commit_retries=0),
                )
            except CommitFailedError:
                continue
            except (OSError, DeltaError):
                if table is None and self._table() is not None:
                    continue  # another writer has created it meanwhile
                raise
            return new.num_rows

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._location)
        except TableNotFoundError:
            return None

    def _fences(self, table: DeltaTable, tps: list[TopicPartition], writers: Writers) -> Mapping[TopicPartition, Fence]:
        found = {}
        for tp in tps:
            end = table.transaction_version(self._id(tp, "next"))
            if end is not None:
                found[tp] = self._fence(table, tp, end, writers.get(tp))
        return found

    def _fence(self, table: DeltaTable, tp: TopicPartition, end: int, writer: QueryClaim | None) -> Fence:
        """Return the fence of a partition.

        An application transaction stores a number and no text. So the fence's owner and topic are
        known only if they are those of the writer.
        """

        def known(what: str, ours: str | None) -> str | None:
            number = table.transaction_version(self._id(tp, what))
            if number in (None, _NOBODY):
                return None
            return ours if number == _number(ours) else "another group or query"

        number = table.transaction_version(self._id(tp, "epoch")) or 0
        owner = known("owner", writer.owner if writer else None)
        return Fence(end, number, owner, known("topic", writer.topic_id if writer else None))

    def _transactions(self, tp: TopicPartition, fence: Fence) -> list[Transaction]:
        numbers = {
            "next": fence.next,
            "epoch": fence.number,
            "owner": _number(fence.owner),
            "topic": _number(fence.topic_id),
        }
        return [Transaction(self._id(tp, what), number) for what, number in numbers.items()]

    def _id(self, tp: TopicPartition, what: str) -> str:
        return f"{self._name}/{tp.topic}/{tp.partition}/{what}"


def _number(text: str | None) -> int:
    """Return a number that identifies the text: a 63-bit hash."""
    if text is None:
        return _NOBODY
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
