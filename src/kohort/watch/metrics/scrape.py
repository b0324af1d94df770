"""One scrape: the metrics of all groups as text. Pure: time is an argument, and what happens is a sink's event."""

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

from kohort.exposition import Exposition
from kohort.model import Millis
from kohort.recorder import RebalanceRecord
from kohort.watch.group import WatchedGroup
from kohort.watch.live import GroupsChanged, Live, LiveEvent, Rebalanced
from kohort.watch.metrics.counters import GroupCounters, protocol_of
from kohort.watch.metrics.families import GroupFamilies, add_watcher
from kohort.watch.metrics.lags import Lags, MetricNames, lags_of
from kohort.watch.metrics.recent import Recent

MOST_PARTITIONS = 50_000
MOST_GROUPS = 20_000
"""Number of groups that a scrape shows. Groups cost about 20 series each."""

_MANY_GROUPS, _MANY_PARTITIONS = "groups in the metrics", "partitions in the metrics"
_SLICE = 500
"""Number of partitions after which a scrape lets others run; a group counts as ten more."""


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """What a scrape shows."""

    cluster: str = ""
    """Value of the label cluster_name."""
    names: MetricNames = MetricNames.KAFKA_LAG_EXPORTER
    """Exporter whose names are used for lags and offsets."""
    include: re.Pattern[str] | None = None
    """Groups to show, by their whole ID; None for all."""
    exclude: re.Pattern[str] | None = None
    """Groups not to show."""
    most_partitions: int = MOST_PARTITIONS
    """Number of partitions, counted for each group, above which no series has the label partition."""
    most_groups: int = MOST_GROUPS

    def selects(self, group_id: str) -> bool:
        """Return whether a scrape shows a group."""
        if self.include is not None and self.include.fullmatch(group_id) is None:
            return False
        return self.exclude is None or self.exclude.fullmatch(group_id) is None


@dataclass(slots=True)
class _Known:
    """What is remembered of a group between two scrapes."""

    selected: bool
    counters: GroupCounters = field(default_factory=GroupCounters)
    recent: Recent | None = None


class GroupMetrics:
    """Metrics of all groups. Call `close` when it is no longer needed."""

    def __init__(self, live: Live, options: MetricsOptions, since: Millis) -> None:
        """Subscribe to `live`. Rebalances that ended before `since` do not count."""
        self._live = live
        self._options = options
        self._since = since
        self._known: dict[str, _Known] = {}
        self.close: Callable[[], None] = live.subscribe(self._take)

    def exposition(self, now: Millis, *, openmetrics: bool, others: Iterable[bytes] = ()) -> bytes:
        """Return the text of a scrape at once."""
        steps = self.steps(now, openmetrics=openmetrics, others=others)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                body: bytes = end.value
                return body

    def steps(self, now: Millis, *, openmetrics: bool, others: Iterable[bytes] = ()) -> Generator[None, None, bytes]:
        """Return the text of a scrape, in steps of a few milliseconds.

        The figures of one group are those of one moment. `others` are further metrics as
        `Exposition.part` returns them, in the same format.
        """
        text = Exposition(openmetrics=openmetrics)
        lags = lags_of(self._options.names, text, self._options.cluster, self._live.poll_ms)
        families = GroupFamilies(text, self._options.cluster)
        groups = self._groups(now)
        limited = self._limited(groups, now)
        add_watcher(text, self._live, self._options.cluster, now, groups=len(groups), limited=limited)
        done = 0
        for group in groups:
            done += 10 + self._add(group, lags, families, now, partitions=not limited)
            if done >= _SLICE:
                yield
                done = 0
        if not limited:
            yield from _add_ends(self._live, lags)
            yield from _add_starts(self._live, lags)
        return text.body(*others)

    def _add(self, group: WatchedGroup, lags: Lags, families: GroupFamilies, now: Millis, *, partitions: bool) -> int:
        """Add a group, and return the number of its partitions."""
        known = self._known.get(group.group_id)
        if known is None:
            return 0  # deleted since the scrape began
        progress = self._live.snapshot(now).progress(group)
        lags.group(group, progress, partitions=partitions)
        recent = known.recent
        if recent is None or (recent.changes_at is not None and now >= recent.changes_at):
            recent = known.recent = Recent.of(group.rebalances, now)
        families.group(group, known.counters, recent, progress, group.dark_now.values(), now)
        return len(progress)

    def _groups(self, now: Millis) -> list[WatchedGroup]:
        groups = [group for group in self._live.groups.values() if self._of(group.group_id).selected]
        most = self._options.most_groups
        if len(groups) > most:
            self._live.problem(
                f"There are more than {most} groups, so the metrics leave some out: select groups by their IDs.",
                now,
                about=_MANY_GROUPS,
            )
        else:
            self._live.solved(_MANY_GROUPS, now)
        return sorted(groups, key=lambda group: group.group_id)[:most]

    def _limited(self, groups: Iterable[WatchedGroup], now: Millis) -> bool:
        """Return whether there are too many partitions, and report it."""
        most = self._options.most_partitions
        total = 0
        for group in groups:
            total += max(len(group.commits), sum(len(member.owned) for member in group.members.values()))
        if total > most:
            self._live.problem(
                f"The groups have more than {most} partitions, so the metrics have no series of single partitions: "
                "select groups by their IDs, or raise the limit.",
                now,
                about=_MANY_PARTITIONS,
            )
        else:
            self._live.solved(_MANY_PARTITIONS, now)
        return total > most

    def _of(self, group_id: str) -> _Known:
        known = self._known.get(group_id)
        if known is None:
            known = self._known[group_id] = _Known(self._options.selects(group_id))
        return known

    # -- events

    def _take(self, event: LiveEvent, _now: Millis) -> None:
        match event:
            case Rebalanced(record) if record.is_rebalance:
                self._rebalanced(record)
            case GroupsChanged(group_ids):
                for group_id in group_ids - self._live.groups.keys():
                    self._known.pop(group_id, None)

    def _rebalanced(self, record: RebalanceRecord) -> None:
        group = self._live.groups.get(record.group_id)
        if group is None:
            return
        known = self._of(record.group_id)
        known.recent = None
        if record.ended_at >= self._since:
            known.counters.take(record, protocol_of(_type_of(group, record), record.protocol))


def _add_ends(live: Live, lags: Lags) -> Generator[None, None, None]:
    ends = [(partition, each.end) for partition, each in live.ends.items() if each.end is not None]
    for start in range(0, len(ends), 4 * _SLICE):
        lags.ends((partition, end) for partition, end in ends[start : start + 4 * _SLICE] if end is not None)
        yield


def _add_starts(live: Live, lags: Lags) -> Generator[None, None, None]:
    starts = list(live.starts.items())
    for begin in range(0, len(starts), 4 * _SLICE):
        lags.starts(starts[begin : begin + 4 * _SLICE])
        yield


def _type_of(group: WatchedGroup, record: RebalanceRecord) -> str | None:
    # Only a classic group has a leader. A group may have changed its protocol since.
    return "classic" if record.leader_id is not None else group.type
