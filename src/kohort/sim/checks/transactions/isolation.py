"""Check that a marker ends the records of one transaction only: nothing of it is visible in the next (S25)."""

from __future__ import annotations

from kohort.sim.checks.transactions.logs import Ended, EndedOffsets, TransactionalLogs
from kohort.sim.checks.transactions.transaction_name import split
from kohort.sim.violation import Violation


class Isolation:
    """Check of each marker."""

    def __init__(self, logs: TransactionalLogs) -> None:
        logs.ended.append(self._ended)
        logs.offsets_ended.append(self._offsets_ended)

    def _ended(self, ended: Ended) -> None:
        _check(str(ended.partition), {split(value)[0] for value in ended.values.values()}, committed=ended.committed)

    def _offsets_ended(self, ended: EndedOffsets) -> None:
        _check("the offsets", {name for _, name in ended.offsets.values()}, committed=ended.committed)


def _check(where: str, names: set[str], *, committed: bool) -> None:
    if len(names) > 1:
        how = "commits" if committed else "aborts"
        raise Violation("S25", f"one marker in {where} {how} {' and '.join(sorted(names))}")
