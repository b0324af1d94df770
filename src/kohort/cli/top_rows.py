"""Rows of `kohort top`: one per group, with what the list shows and sorts by. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.watch import Live, WatchedGroup
    from kohort.watch.findings import LagSeries, LagTrails

HOUR_MS = 3_600_000


class Order(Enum):
    """What the list is sorted by; the value is the key that chooses it."""

    HURT = "h"
    LAG = "l"
    REBALANCES = "b"
    MEMBERS = "m"
    NAME = "n"

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group."""

    group_id: str
    type: str | None
    state: str
    members: int
    partitions: int
    lag: int | None
    lag_seconds: float | None
    lags: "LagSeries"
    rebalances: int | None
    """Rebalances of the last hour; None if they are not known."""
    last_at: Millis | None
    last_cause: str | None
    hurts: tuple[str, ...]


def rows(live: "Live", trails: "LagTrails", now: Millis) -> list[GroupRow]:
    """Return a row for each group. `trails` receives the present lags."""
    snapshot = live.snapshot(now)
    trails.take(snapshot.groups, live.ends, now)
    return [_row(live, group, trails.of(group.group_id), now) for group in snapshot.groups]


def _row(live: "Live", group: "WatchedGroup", lags: "LagSeries", now: Millis) -> GroupRow:
    from kohort.watch.findings import hurts

    progress = live.snapshot(now).progress(group)
    known = [each.lag for each in progress if each.lag is not None]
    recent = [record for record in group.rebalances if record.is_rebalance and record.ended_at > now - HOUR_MS]
    return GroupRow(
        group.group_id,
        group.shown_type,
        group.state,
        len(group.members),
        len(progress),
        sum(lag.records for lag in known) if known else None,
        max((lag.seconds for lag in known), default=None),
        lags,
        None if live.history_from is None and not recent else len(recent),
        recent[-1].ended_at if recent else None,
        recent[-1].cause or "unknown cause" if recent else None,
        tuple(hurts(group, group.rebalances, now, ends=live.ends, lags=lags, telemetry=live.telemetry)),
    )


def ordered(found: Iterable[GroupRow], order: Order, wanted: str = "") -> list[GroupRow]:
    """Return the rows whose group ID contains `wanted`, in any case, in this order."""
    kept = [row for row in found if wanted.lower() in row.group_id.lower()]
    match order:
        case Order.HURT:
            return sorted(kept, key=lambda row: (-len(row.hurts), -_steps_behind(row), row.group_id))
        case Order.LAG:
            return sorted(kept, key=lambda row: (-(row.lag_seconds or 0), -(row.lag or 0), row.group_id))
        case Order.REBALANCES:
            return sorted(kept, key=lambda row: (-(row.rebalances or 0), row.group_id))
        case Order.MEMBERS:
            return sorted(kept, key=lambda row: (-row.members, row.group_id))
        case Order.NAME:
            return sorted(kept, key=lambda row: row.group_id)


def _steps_behind(row: GroupRow) -> int:
    """Return the lag in steps that double from 10 s: groups that keep up keep their places in the list."""
    return int((row.lag_seconds or 0) // 10).bit_length()
