"""History of each group for the page: who owned its partitions over time, and how its lag went. Pure, of bounded size.

The records of rebalances say when partitions changed hands. `Histories` adds what they do not say:
changes that no record reports yet, and the lag of each minute.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kohort.group_events import MemberFacts
from kohort.model import Millis, TopicPartition
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch.group import WatchedGroup
from kohort.watch.live import EndsSampled, GroupsChanged, Live, LiveEvent, Rebalanced

MOST_SPANS = 50_000
"""Maximum number of spans in a timeline. A timeline that would have more begins later."""
MOST_CHANGES = 5_000
"""Maximum number of changes of owners that are kept for a group until a record reports them."""
LAG_STEP_MS: Millis = 60_000
LAG_POINTS = 60
"""Number of steps for which the lag is kept: an hour."""
_LONGEST_STEP_MS: Millis = 600_000
"""Time after the end of a rebalance within which first reads are looked for."""
_SAMPLING_MS: Millis = 10_000
"""Interval between two samples of one group's lag."""

Span = tuple[Millis, Millis | None, str | None]
"""Start, end (None if it lasts), and the owner's member ID; `DARK`; or None if unknown or without members."""
DARK = ""
"""Stands for an owner where it is known that no member processes the partition."""


@dataclass(slots=True)
class LagSeries:
    """Largest lag in seconds of each minute, for the last hour; None where it is unknown."""

    points: deque[tuple[Millis, float | None]] = field(default_factory=lambda: deque(maxlen=LAG_POINTS))

    def add(self, now: Millis, seconds: float | None) -> None:
        """Add a sample."""
        at = now - now % LAG_STEP_MS
        if not self.points or at > self.points[-1][0]:
            self.points.append((at, seconds))
        else:
            at, known = self.points[-1]
            self.points[-1] = (at, seconds if known is None or (seconds is not None and seconds > known) else known)

    def since(self, start: Millis) -> list[tuple[Millis, float | None]]:
        """Return the points from this time on, without those between two equal neighbours."""
        points = [point for point in self.points if point[0] >= start]
        return [
            point
            for index, point in enumerate(points)
            if index in (0, len(points) - 1) or not points[index - 1][1] == point[1] == points[index + 1][1]
        ]


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """Change of a partition's owner that was seen, and that no record of a rebalance reports yet."""

    at: Millis
    partition: TopicPartition
    owner: str | None


@dataclass(slots=True)
class GroupHistory:
    """What is kept of one group beside its records."""

    first_seen: Millis
    lags: LagSeries = field(default_factory=LagSeries)
    changes: deque[OwnerChange] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES))
    facts: dict[str, MemberFacts] = field(default_factory=dict)
    """Members that are in no record, because they came and went between records."""
    _owned: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)

    def observe(self, group: WatchedGroup, now: Millis) -> None:
        """Compare the owners with those of the last call."""
        members = group.members
        known = self._owned
        if len(known) == len(members) and all(known.get(name) is member.reads for name, member in members.items()):
            return
        before = {partition: name for name, owned in known.items() for partition in owned}
        self._owned = {name: member.reads for name, member in members.items()}
        after = {partition: name for name, reads in self._owned.items() for partition in reads}
        for partition in before.keys() | after.keys():
            owner = after.get(partition)
            if before.get(partition) != owner:
                self.changes.append(OwnerChange(now, partition, owner))
        in_changes = {change.owner for change in self.changes}
        self.facts = {name: facts for name, facts in self.facts.items() if name in in_changes}
        self.facts |= {name: member.facts for name, member in members.items() if name in in_changes}

    def reported(self, record: RebalanceRecord) -> None:
        """Forget the changes that a record reports: its times are better."""
        if self.changes:
            told = {TopicPartition(change.topic, change.partition) for change in record.partitions}
            kept = [change for change in self.changes if change.partition not in told]
            self.changes.clear()
            self.changes.extend(kept)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Owners of a group's partitions from `start` to `end`."""

    start: Millis
    end: Millis
    partitions: Mapping[TopicPartition, Sequence[Span]]
    members: Mapping[str, MemberFacts]
    """The members that appear as owners, by ID."""
    records: Sequence[RebalanceRecord]
    """The rebalances of this time, oldest first."""

    def to_json(self) -> dict[str, Any]:
        """Return the timeline for `json.dumps`, with owners as indexes of members; -1 is dark."""
        index: dict[str | None, int | None] = {name: number for number, name in enumerate(self.members)}
        index[DARK], index[None] = -1, None
        return {
            "from": self.start,
            "to": self.end,
            "members": [
                {"member_id": name, "client_id": facts.client_id, "client_host": facts.client_host}
                for name, facts in self.members.items()
            ],
            "partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "spans": [[start, end, index[owner]] for start, end, owner in spans],
                }
                for partition, spans in sorted(self.partitions.items())
            ],
            "rebalances": [
                {
                    "generation": record.generation,
                    "started_at": record.started_at,
                    "ended_at": record.ended_at,
                    "cause": record.cause,
                }
                for record in self.records
            ],
        }


@dataclass(slots=True)
class Histories:
    """Histories of all groups of `live`: `live.subscribe(histories.sink)`."""

    live: Live
    groups: dict[str, GroupHistory] = field(default_factory=dict)
    _turn: dict[str, None] = field(default_factory=dict)
    """Groups whose lag is to be sampled, the next one first."""
    _sampled_at: Millis = 0

    def sink(self, event: LiveEvent, now: Millis) -> None:
        """Take an event."""
        match event:
            case GroupsChanged(group_ids):
                for group_id in group_ids:
                    self._changed(group_id, now)
            case Rebalanced(record):
                if (history := self.groups.get(record.group_id)) is not None:
                    history.reported(record)
            case EndsSampled():
                self._sample(now)

    def of(self, group_id: str, now: Millis) -> GroupHistory:
        """Return the history of a group, which begins now if nothing happened yet."""
        if group_id not in self.groups:
            self.groups[group_id] = GroupHistory(now)
            self._turn[group_id] = None
        return self.groups[group_id]

    def timeline(self, group_id: str, start: Millis, end: Millis) -> Timeline:
        """Return the owners of a group's partitions over time. Raises KeyError for an unknown group."""
        group = self.live.groups[group_id]
        history = self.of(group_id, end)
        known_from = history.first_seen if self.live.history_from is None else self.live.history_from
        return timeline(group, history, max(start, known_from), end)

    def _changed(self, group_id: str, now: Millis) -> None:
        group = self.live.groups.get(group_id)
        if group is None:
            self.groups.pop(group_id, None)
            self._turn.pop(group_id, None)
        else:
            self.of(group_id, now).observe(group, now)

    def _sample(self, now: Millis) -> None:
        """Sample the lag of the groups whose turn it is, so that the cost is spread over time."""
        passed, self._sampled_at = min(_SAMPLING_MS, max(0, now - self._sampled_at)), now
        for _ in range(-(-len(self._turn) * passed // _SAMPLING_MS)):
            group_id = next(iter(self._turn))
            del self._turn[group_id]
            group, history = self.live.groups.get(group_id), self.groups.get(group_id)
            if history is not None:
                self._turn[group_id] = None
                if group is not None:
                    history.lags.add(now, group_lag(self.live, group, now)[1])


def group_lag(live: Live, group: WatchedGroup, now: Millis) -> tuple[int | None, float | None]:
    """Return all records that are not committed, and the largest lag in seconds; None if no lag is known."""
    ends = live.ends
    records, seconds = None, None
    for partition, commit in group.commits.items():
        table = ends.get(partition)
        lag = None if table is None else table.lag(commit.offset, now)
        if lag is not None:
            records = lag.records + (records or 0)
            seconds = max(seconds or 0.0, lag.seconds)
    return records, seconds


def timeline(group: WatchedGroup, history: GroupHistory, start: Millis, end: Millis) -> Timeline:
    """Return who owned each partition from `start` to `end`, as far as records and observed changes tell."""
    records = [record for record in group.rebalances if record.is_rebalance]
    start = max(start, _start_within_bound([record for record in records if record.ended_at >= start]))
    known = _changes_of_records([record for record in records if record.ended_at >= start - _LONGEST_STEP_MS])
    for change in history.changes:  # also a later one: the present owner was not that before it
        owner = change.owner if change.owner is not None or not group.members else DARK
        known[change.partition].append(_Step(change.at, change.at, owner, None))
    owners = group.owners
    spans = {
        partition: _spans(known.get(partition, []), owners.get(partition), start, end)
        for partition in owners.keys() | known.keys()
    }
    members: dict[str, MemberFacts] = dict(history.facts)
    for record in records:
        members |= {member.member_id: member for member in record.members()}
    members |= {name: member.facts for name, member in group.members.items()}
    named = dict.fromkeys(owner for each in spans.values() for _, _, owner in each if owner)
    facts = {name: members.get(name) or MemberFacts(name, "", "") for name in named}
    return Timeline(start, end, spans, facts, [record for record in records if start <= record.ended_at <= end])


@dataclass(frozen=True, slots=True)
class _Step:
    """Change of one partition: dark or unknown from `stopped`, with its owner from `started`."""

    stopped: Millis
    started: Millis
    owner: str | None
    """`DARK` or None if nobody follows."""
    previous: str | None
    between: str | None = None
    """`DARK` if the partition is known to be dark between the two times."""


def _start_within_bound(records: Sequence[RebalanceRecord]) -> Millis:
    """Return the time from which the records make at most `MOST_SPANS` spans; 0 if all of them do."""
    total = 0
    for record in reversed(records):
        total += 2 * len(record.partitions)
        if total > MOST_SPANS:
            return record.ended_at + 1
    return 0


def _changes_of_records(records: Iterable[RebalanceRecord]) -> defaultdict[TopicPartition, list[_Step]]:
    """Return the steps of each partition, oldest first."""
    steps = defaultdict[TopicPartition, list[_Step]](list)
    for record in records:
        empty = not record.members_after
        for change in record.partitions:
            assigned = record.ended_at if change.assigned_at is None else change.assigned_at
            if change.owner is None:
                stopped = record.ended_at if change.revoked_at is None else change.revoked_at
                step = _Step(stopped, stopped, None if empty else DARK, change.previous_owner)
            elif (
                change.revoked_at is None
                or record.was_empty
                or _is_last_commit(record, change)
                or _shows_no_reader(change, steps)
            ):
                step = _Step(assigned, assigned, change.owner, None if record.was_empty else change.previous_owner)
            else:
                read = assigned if change.first_read_at is None else change.first_read_at
                step = _Step(min(change.revoked_at, read), read, change.owner, change.previous_owner, DARK)
            steps[TopicPartition(change.topic, change.partition)].append(step)
        if empty:
            for partition, known in steps.items():
                if known[-1].owner and known[-1].started <= record.ended_at:
                    steps[partition].append(_Step(record.ended_at, record.ended_at, None, None))
    return steps


def _is_last_commit(record: RebalanceRecord, change: PartitionChange) -> bool:
    """Return whether `revoked_at` says no more than when the owner before committed last.

    If no unread record waited, the owner may have stopped long afterwards: the rebalance has no dark time for the
    partition. A recorder sees when an owner stops.
    """
    return record.source is None and change.first_read_at is None


def _shows_no_reader(change: PartitionChange, steps: defaultdict[TopicPartition, list[_Step]]) -> bool:
    """Return whether nothing shows that either owner ever read, as in a group that does not commit."""
    before = steps.get(TopicPartition(change.topic, change.partition))
    if change.first_read_at is not None or change.revoked_at is None or not before:
        return False
    return bool(before[-1].owner) and change.revoked_at <= before[-1].started


def _spans(steps: Sequence[_Step], now_owned_by: str | None, start: Millis, end: Millis) -> list[Span]:
    """Return the spans of one partition within the time."""
    # Without a change, the owner was always the present one.
    points: list[tuple[Millis, str | None]] = [(start, steps[0].previous if steps else now_owned_by)]
    for step in steps:
        points.append((max(start, step.stopped, points[-1][0]), step.between))
        points.append((max(start, step.started, points[-1][0]), step.owner))
    if steps and end >= points[-1][0] and now_owned_by is not None and points[-1][1] is None:
        points.append((points[-1][0], now_owned_by))
    spans: list[Span] = []
    for index, (at, owner) in enumerate(points):
        until = points[index + 1][0] if index + 1 < len(points) else None
        if at > end or until == at:
            continue
        if spans and spans[-1][2] == owner:
            at = spans.pop()[0]
        spans.append((at, None if until is None or until > end else until, owner))
    return spans
