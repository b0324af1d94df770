"""Check that a transaction is visible in all of its partitions and offsets, or in none (S24)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kohort.model import TopicPartition
from kohort.sim.checks.transactions.logs import Ended, EndedOffsets, TransactionalLogs
from kohort.sim.checks.transactions.transaction_name import split
from kohort.sim.violation import Violation

Content = Mapping[TopicPartition, Iterable[bytes]]
"""Values of a transaction's records by partition."""


class Atomicity:
    """What applications decided on their transactions, and what the logs say."""

    def __init__(self, logs: TransactionalLogs) -> None:
        self._outcomes: dict[str, bool] = {}
        """Whether each transaction was committed, as its first marker says."""
        self._asked: dict[str, tuple[dict[TopicPartition, Counter[bytes]], dict[TopicPartition, int]]] = {}
        """Records and offsets of each transaction that its application wants to commit."""
        self._acknowledged: set[str] = set()
        self._seen: Counter[str] = Counter()
        """Number of partitions and offsets of each transaction that have been found committed."""
        logs.ended.append(self._ended)
        logs.offsets_ended.append(self._offsets_ended)

    def asks(self, name: str, records: Content, offsets: Mapping[TopicPartition, int]) -> None:
        """Record that an application is about to commit."""
        self._asked[name] = {place: Counter(values) for place, values in records.items()}, dict(offsets)

    def acknowledged(self, name: str) -> None:
        """Record that a commit was acknowledged to the application."""
        if self._outcomes.get(name) is False:
            raise Violation("S24", f"the commit of {name} is acknowledged, but it was aborted")
        self._acknowledged.add(name)

    def _ended(self, ended: Ended) -> None:
        for name in {split(value)[0] for value in ended.values.values()}:
            self._decided(name, str(ended.partition), committed=ended.committed)
            if ended.committed:
                found = Counter(value for value in ended.values.values() if split(value)[0] == name)
                wanted = self._asked[name][0].get(ended.partition, Counter())
                if found != wanted:
                    what = f"{name} is committed in {ended.partition} with {found.total()} of {wanted.total()} records"
                    raise Violation("S24", what)
                self._seen[name] += 1

    def _offsets_ended(self, ended: EndedOffsets) -> None:
        for partition, (offset, name) in ended.offsets.items():
            self._decided(name, f"the offset of {partition}", committed=ended.committed)
            if ended.committed:
                if self._asked[name][1].get(partition) != offset:
                    raise Violation("S24", f"{name} commits {offset} of {partition}, which is not its offset")
                self._seen[name] += 1

    def _decided(self, name: str, where: str, *, committed: bool) -> None:
        before = self._outcomes.setdefault(name, committed)
        if before != committed:
            words = "aborted", "committed"
            raise Violation("S24", f"{name} is {words[committed]} in {where}, but was {words[before]} elsewhere")
        if committed and name not in self._asked:
            raise Violation("S24", f"{name} is committed in {where}, but its application did not want that")
        if not committed and name in self._acknowledged:
            raise Violation("S24", f"{name} is aborted in {where}, but its commit was acknowledged")

    def incomplete(self) -> str:
        """Return a description of a transaction that is visible in a part only, or ""."""
        for name, (records, offsets) in self._asked.items():
            wanted = len(records) + len(offsets)
            if (name in self._acknowledged or self._outcomes.get(name)) and self._seen[name] < wanted:
                return f"{name} was committed, but only {self._seen[name]} of its {wanted} parts are visible"
        return ""
