"""Exactly once into a Delta table, without a jar: the fences are the table's own application transactions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kohort.model import TopicPartition
from pyspark_kohort.sinks.fence import Epochs, Fence, admitted, partitions_of


class DeltaSink:
    """Rows into the table at that location, which the first of them make. `name` keeps pipelines apart."""

    def __init__(self, location: str, name: str = "kohort") -> None:
        self._location = location
        self._name = name

    def write(self, rows: pa.Table, epochs: Epochs) -> int:
        tps = partitions_of(rows)
        while True:
            table = self._table()
            new, after = admitted(rows, epochs, {} if table is None else self._fences(table, tps))
            if not after:
                return 0
            moved = [one for tp, fence in after.items() for one in self._transactions(tp, fence)]
            try:
                write_deltalake(
                    table or self._location,
                    new,
                    mode="append" if table else "error",
                    # A commit that came between may have moved our fences: look again instead of trying again.
                    commit_properties=CommitProperties(app_transactions=moved, max_commit_retries=0),
                )
            except CommitFailedError:
                continue
            except (OSError, DeltaError):
                if table is None and self._table() is not None:
                    continue  # somebody else has made it meanwhile
                raise
            return new.num_rows

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._location)
        except TableNotFoundError:
            return None

    def _fences(self, table: DeltaTable, tps: list[TopicPartition]) -> Mapping[TopicPartition, Fence]:
        found = {}
        for tp in tps:
            end = table.transaction_version(self._id(tp, "next"))
            if end is not None:
                found[tp] = Fence(end, table.transaction_version(self._id(tp, "epoch")) or 0)
        return found

    def _transactions(self, tp: TopicPartition, fence: Fence) -> list[Transaction]:
        return [Transaction(self._id(tp, "next"), fence.next), Transaction(self._id(tp, "epoch"), fence.epoch)]

    def _id(self, tp: TopicPartition, what: str) -> str:
        return f"{self._name}/{tp.topic}/{tp.partition}/{what}"
