"""Figures over the rebalances of the last hour, with the definitions of `kohort analyse`. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import (
    BURST_MS,
    MemberName,
    RebalanceRecord,
    bursts,
    comings,
    flapping,
    name_of,
    returns,
)

WINDOW_MS: Millis = 60 * 60_000
"""Age of the oldest rebalance that counts."""

_ON_PURPOSE = {Cause.MEMBER_LEFT.value, Cause.REMOVED_BY_ADMIN.value}


@dataclass(frozen=True, slots=True)
class Recent:
    """Figures of one group."""

    flapping: int = 0
    """Number of members that go and come back repeatedly."""
    missing: int = 0
    """Number of members that went, not known to be on purpose, and were not replaced."""
    thrashing: bool = False
    """Whether more rebalances follow each other than a restart of every member causes."""
    slowest_revocation_ms: Millis | None = None
    slowest_client_id: str = ""
    changes_at: Millis | None = None
    """Time at which the figures change without a new rebalance; None if they do not."""

    @classmethod
    def of(cls, records: Iterable[RebalanceRecord], now: Millis) -> "Recent":
        """Return the figures of a group, from its records, oldest first."""
        recent = [record for record in records if record.is_rebalance and record.ended_at > now - WINDOW_MS]
        if not recent:
            return _NOTHING
        last = bursts(recent)[-1:]
        is_now = bool(last) and last[0].records[-1].ended_at > now - BURST_MS
        ends = [recent[0].ended_at + WINDOW_MS] + ([last[0].records[-1].ended_at + BURST_MS] if is_now else [])
        slowest, client_id = _slowest_revocation(recent)
        return cls(
            len({episode.name for episode in flapping(returns(recent))}),
            _missing(recent),
            is_now and last[0].thrashes,
            slowest,
            client_id,
            min(ends),
        )


_NOTHING = Recent()


def _missing(records: Iterable[RebalanceRecord]) -> int:
    """Return the number of members that went and did not come back; a new member replaces one."""
    away: Counter[MemberName] = Counter()
    new = 0
    for coming in comings(records):
        name = name_of(coming.member)
        if not coming.came:
            away[name] += coming.cause not in _ON_PURPOSE
        elif away[name]:
            away[name] -= 1
        else:
            new += 1
    return max(0, away.total() - new)


def _slowest_revocation(records: Iterable[RebalanceRecord]) -> tuple[Millis | None, str]:
    """Return the longest time between the start of a rebalance and a member's revocation, and its client ID."""
    slowest: tuple[Millis, str] | None = None
    for record in records:
        if record.started_at is None:
            continue
        clients = {member.member_id: member.client_id for member in record.after}
        for change in record.partitions:
            owner = change.previous_owner
            # Members that left or expired revoked nothing.
            if owner not in clients or change.revoked_at is None or change.revoked_at < record.started_at:
                continue
            took = change.revoked_at - record.started_at
            if slowest is None or took > slowest[0]:
                slowest = (took, clients[owner])
    return (None, "") if slowest is None else slowest
