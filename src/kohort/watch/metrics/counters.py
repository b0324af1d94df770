"""Counters of each group: what happened in its rebalances since the start. Pure.

A counter never goes back while the process runs. A rebalance counts once, though its record may be
amended: then only what the new record adds is counted, and the cause stays the one that was first
known. Rebalances that ended before the start do not count. If they did, each restart would count the
same history again.
"""

from dataclasses import dataclass, field

from kohort.exposition import Exemplar, Histogram
from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import RebalanceRecord, is_eager, is_follow_up, needless_moves

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets for the duration of a rebalance."""

PROTOCOLS = ("eager", "cooperative", "consumer", "classic")
"""Protocols of rebalances; `classic` if the assignor is not known, as for a group that became empty."""

_CAUSES = {cause.value for cause in Cause}
_MOST_AMENDED = 200
"""Number of rebalances of each group whose records may still be amended."""
_SAME_MS: Millis = 60_000
"""Difference of two ends of one rebalance, as two sources report it. A group that was created again is further away."""


@dataclass(slots=True)
class _Counted:
    """What was counted for one rebalance."""

    ended_at: Millis
    dark_ms: int = 0
    paused_ms: int = 0
    needed: int = 0
    needless: int = 0
    timed: bool = False
    newcomers: tuple[str, ...] = ()
    """Members that came one generation before."""


@dataclass(slots=True)
class GroupCounters:
    """Counters of one group."""

    rebalances: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number of rebalances by cause and protocol."""
    exemplars: dict[tuple[str, str], Exemplar] = field(default_factory=dict)
    seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    dark_ms: int = 0
    """Time for which partitions were dark, added up."""
    paused_ms: int = 0
    """Time for which members processed nothing, added up."""
    needed_moves: int = 0
    needless_moves: int = 0
    _counted: dict[int, _Counted] = field(default_factory=dict)
    _forgotten_until: Millis = -1
    """End of the newest rebalance whose record is no longer amended."""
    _came: tuple[int, tuple[str, ...]] = (-1, ())
    """Generation of the newest rebalance, and the members that came in it."""

    def take(self, record: RebalanceRecord, protocol: str) -> None:
        """Count a rebalance, or what its new record adds."""
        before = self._counted.get(record.generation)
        if before is not None and abs(before.ended_at - record.ended_at) > _SAME_MS:
            before = None
        if before is None:
            if record.ended_at <= self._forgotten_until:
                return
            before = self._first(record, protocol)
        needless = len(needless_moves(record, before.newcomers))
        counted = _Counted(
            record.ended_at,
            max(before.dark_ms, sum(record.dark_times)),
            max(before.paused_ms, paused_ms(record)),
            max(before.needed, len(record.moved) - needless),
            max(before.needless, needless),
            before.timed or record.wall_ms is not None,
            before.newcomers,
        )
        self.dark_ms += counted.dark_ms - before.dark_ms
        self.paused_ms += counted.paused_ms - before.paused_ms
        self.needed_moves += counted.needed - before.needed
        self.needless_moves += counted.needless - before.needless
        if counted.timed and not before.timed and record.wall_ms is not None:
            seconds = max(0, record.wall_ms) / 1000
            self.seconds.observe(seconds, _exemplar(record, seconds))
        self._counted[record.generation] = counted
        if record.generation > self._came[0]:
            self._came = (record.generation, tuple(member.member_id for member in record.came))

    def _first(self, record: RebalanceRecord, protocol: str) -> _Counted:
        key = (cause_of(record), protocol)
        self.rebalances[key] = self.rebalances.get(key, 0) + 1
        self.exemplars[key] = _exemplar(record, 1)
        self._counted.pop(record.generation, None)
        if len(self._counted) >= _MOST_AMENDED:
            oldest = self._counted.pop(next(iter(self._counted)))
            self._forgotten_until = max(self._forgotten_until, oldest.ended_at)
        newcomers = self._came[1] if self._came[0] == record.generation - 1 else ()
        return _Counted(record.ended_at, newcomers=newcomers)


def _exemplar(record: RebalanceRecord, value: float) -> Exemplar:
    return Exemplar(f'generation="{record.generation}"', value, record.ended_at / 1000)


def cause_of(record: RebalanceRecord) -> str:
    """Return the cause for a label. A journal may be written by strangers, so other texts are `unknown`."""
    if record.cause is None:
        return "follow-up" if is_follow_up(record) else Cause.UNKNOWN.value
    return record.cause if record.cause in _CAUSES else Cause.UNKNOWN.value


def protocol_of(group_type: str | None, assignor: str | None) -> str:
    """Return the protocol of a rebalance: one of `PROTOCOLS`."""
    if group_type == "consumer":
        return "consumer"
    if assignor is None:
        return "classic"
    return "eager" if is_eager(assignor) else "cooperative"


def paused_ms(record: RebalanceRecord) -> int:
    """Return how long members processed nothing though they stayed in the group, added up.

    Only members of eager groups stop everything. Their records have the times only where a broker of
    Kohort recorded them.
    """
    if record.started_at is None or not is_eager(record.protocol) or record.leader_id is None:
        return 0
    stopped: dict[str, Millis] = {}
    for change in record.partitions:
        if change.previous_owner is not None and change.revoked_at is not None:
            stopped[change.previous_owner] = max(stopped.get(change.previous_owner, 0), change.revoked_at)
    after = {member.member_id for member in record.after}
    return sum(max(0, record.ended_at - at) for member_id, at in stopped.items() if member_id in after)
