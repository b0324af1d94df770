"""Check that a transactional copy has each record once (S27)."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.sim.checks.transactions.logs import Ended, TransactionalLogs
from kohort.sim.checks.transactions.transaction_name import split
from kohort.sim.violation import Violation


class Copies:
    """Committed copies of records, by topic."""

    def __init__(self, logs: TransactionalLogs) -> None:
        self._copied: dict[str, dict[bytes, str]] = {}
        """Transaction of each copied value, by topic."""
        logs.ended.append(self._ended)

    @property
    def count(self) -> int:
        """Number of committed copies."""
        return sum(map(len, self._copied.values()))

    def _ended(self, ended: Ended) -> None:
        if not ended.committed:
            return
        copied = self._copied.setdefault(ended.partition.topic, {})
        for name, value in map(split, ended.values.values()):
            if value in copied:
                raise Violation("S27", f"{ended.partition} has {value!r} twice: by {copied[value]} and by {name}")
            copied[value] = name

    def missing(self, topics: Iterable[str], values: Iterable[bytes]) -> str:
        """Return a description of a value that was not copied to one of these topics, or ""."""
        wanted = list(values)
        for topic in topics:
            copied = self._copied.get(topic, {})
            for value in wanted:
                if value not in copied:
                    return f"{value!r} was not copied to {topic}"
        return ""
