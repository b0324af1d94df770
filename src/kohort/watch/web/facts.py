"""Figures of one rebalance for lists and sums, computed once for each record. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kohort.model import Millis
from kohort.recorder import RebalanceRecord, needless_moves
from kohort.watch import WatchedGroup

MOST_LISTED = 200
"""Number of rebalances in the document of a group."""


@dataclass(frozen=True, slots=True)
class RebalanceFacts:
    """Figures of one rebalance."""

    record: RebalanceRecord
    moved: int
    needless: int
    dark_ms_total: Millis | None
    """Sum over the partitions; None if no dark time is known."""
    longest_dark_ms: Millis | None
    came: tuple[str, ...]
    """Member IDs of those that joined."""

    def to_json(self, *, pending: bool) -> dict[str, Any]:
        """Return the line of this rebalance in a list, for `json.dumps`.

        `pending` is whether more may become known of it, such as first reads.
        """
        record = self.record
        return {
            "generation": record.generation,
            "started_at": record.started_at,
            "ended_at": record.ended_at,
            "cause": record.cause,
            "triggers": [
                {"cause": each.cause, "member_id": each.member_id, "reason": each.reason} for each in record.triggers
            ],
            "moved": self.moved,
            "needless": self.needless,
            "dark_ms_total": self.dark_ms_total,
            "longest_dark_ms": self.longest_dark_ms,
            "members_after": record.members_after,
            "pending": pending,
            "source": record.source or ("polled" if record.polled else "log"),
        }


@dataclass(slots=True)
class GroupFacts:
    """Figures of a group's rebalances, by generation and end: a static member that returns repeats a generation."""

    _known: dict[tuple[int, Millis], RebalanceFacts] = field(default_factory=dict)

    def newest_first(self, group: WatchedGroup, since: Millis = 0) -> Iterator[RebalanceFacts]:
        """Yield the rebalances that ended at or after this time."""
        records = group.rebalances
        if len(self._known) > 2 * len(records) + 10:
            here = {(record.generation, record.ended_at) for record in records}
            self._known = {name: known for name, known in self._known.items() if name in here}
        newest_first = (record for record in reversed(records) if record.is_rebalance)
        record = next(newest_first, None)
        while record is not None and record.ended_at >= since:
            before = next(newest_first, None)
            yield self._of(record, before)
            record = before

    def joined_at(self, group: WatchedGroup) -> dict[str, Millis]:
        """Return when each member joined, as far as the history has it."""
        joined: dict[str, Millis] = {}
        for each in self.newest_first(group):
            for member_id in each.came:
                joined.setdefault(member_id, each.record.ended_at)
            if len(joined) >= len(group.members) and joined.keys() >= group.members.keys():
                break
        return joined

    def _of(self, record: RebalanceRecord, before: RebalanceRecord | None) -> RebalanceFacts:
        name = record.generation, record.ended_at
        known = self._known.get(name)
        if known is None or known.record is not record:
            newcomers = () if before is None else [member.member_id for member in before.came]
            dark = record.dark_times
            known = RebalanceFacts(
                record,
                moved=len(record.moved),
                needless=len(needless_moves(record, newcomers)),
                dark_ms_total=sum(dark) if dark else 0 if record.was_empty or not record.partitions else None,
                longest_dark_ms=max(dark, default=None),
                came=tuple(member.member_id for member in record.came),
            )
            self._known[name] = known
        return known
