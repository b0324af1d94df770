"""The groups of a cluster as they are now, and what happened to them. Pure: time is an argument.

`Live` takes what the sources report and hands it to the sinks: the page, the metrics, the traces and
the webhooks. Every source reports here, and every sink reads here, so a sink does not know where a
fact is from.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum

from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.telemetry import ClientTelemetry
from kohort.watch.changes import Change, TopicNamed
from kohort.watch.group import GroupFound, WatchedGroup
from kohort.watch.journalled import WAIT_MS, Journalled, insert, nearest, put
from kohort.watch.lag import EndOffsets
from kohort.watch.reader import ReadCounts
from kohort.watch.snapshot import Snapshot
from kohort.watch.telemetry import ClientReports
from kohort.watch.watcher import Watcher

_MOST_AMENDED = 50
"""Number of rebalances of one group that may be reported again."""
_MOST_PROBLEMS = 200
"""Number of problems that are listed. Further ones are counted: a cluster may refuse thousands of groups."""
_MOST_COUNTED = 10_000
_LONGEST_PROBLEM = 1_000


class SourceKind(Enum):
    """Kind of a source, with what it cannot know."""

    LOG = "log"
    """`__consumer_offsets` as a stream."""
    ADMIN = "admin"
    """Admin APIs, asked periodically."""
    JOURNAL = "journal"
    """The journal of Kohort's brokers, as a stream."""
    TELEMETRY = "telemetry"
    """Metrics that clients push to the broker (KIP-714)."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of one source."""

    kind: SourceKind
    state: str
    """`loading`, `following`, `forbidden`, `failed` or `off`."""
    since: Millis
    detail: str | None = None
    """What is wrong and what to do, as a sentence."""


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A rebalance that was found, or of which more is known by now.

    Then its record replaces that of the same generation with the same end.
    """

    record: RebalanceRecord
    again: bool
    """Whether a record of this rebalance was reported before."""


@dataclass(frozen=True, slots=True)
class GroupsChanged:
    """Groups whose state, members, assignments or offsets changed. Deleted groups are no longer in `Live.groups`."""

    group_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class EndsSampled:
    """New end offsets, so lags changed."""


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """A source changed its state."""

    source: SourceState


@dataclass(frozen=True, slots=True)
class ProblemFound:
    """Something that cannot be read or known, as a sentence; reported once."""

    text: str


@dataclass(frozen=True, slots=True)
class ProblemSolved:
    """A problem that is over."""

    text: str


LiveEvent = Rebalanced | GroupsChanged | EndsSampled | SourceChanged | ProblemFound | ProblemSolved
Sink = Callable[[LiveEvent, Millis], None]
"""Takes an event and its time. It must not raise and not block."""


@dataclass(slots=True)
class Live:
    """State of all groups, for sources to change and for sinks to read."""

    watcher: Watcher = field(default_factory=Watcher)
    ends: dict[TopicPartition, EndOffsets] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    """Earliest offset of each partition, as far as it is known."""
    sampled_at: Millis | None = None
    """Time at which end offsets were asked for last, although none changed; None before the first sample."""
    poll_ms: Millis | None = None
    """Time that the last round of questions to the cluster took; None before the first."""
    counts: ReadCounts = field(default_factory=ReadCounts)
    history_from: Millis | None = None
    """Time from which rebalances are known; None if they are known only from now on."""
    sources: dict[SourceKind, SourceState] = field(default_factory=dict)
    problems: dict[str, None] = field(default_factory=dict)
    """What cannot be read or known, in the order of its discovery."""
    reports: ClientReports = field(default_factory=ClientReports)
    _journal: Journalled = field(default_factory=Journalled)
    _left_out: set[int] = field(default_factory=set)
    """Hashes of the problems that are not listed, to count each once."""
    _about: dict[str, str] = field(default_factory=dict)
    """Problems by what they are about, such as a topic."""
    _sinks: list[Sink] = field(default_factory=list)
    _reported: dict[str, deque[tuple[int, Millis]]] = field(default_factory=dict)
    """Generations and ends of the rebalances that were reported last, by group."""

    @property
    def groups(self) -> Mapping[str, WatchedGroup]:
        """Groups by ID."""
        return self.watcher.groups

    @property
    def telemetry(self) -> Mapping[str, ClientTelemetry]:
        """What the clients of members reported last, by member ID."""
        return self.reports.members

    @property
    def group_sources(self) -> list[SourceState]:
        """States of the sources that report all groups. The others only add to what these report."""
        return [source for kind, source in self.sources.items() if kind in (SourceKind.LOG, SourceKind.ADMIN)]

    def client_reported(self, telemetry: ClientTelemetry, now: Millis) -> None:
        """Take what a client pushed about itself. It counts if the client is a member of a known group."""
        if telemetry.expires_at <= now:
            return
        group_id = self.reports.report(telemetry, self.groups)
        if group_id is not None:
            self._report(GroupsChanged(frozenset((group_id,))), now)

    def expire_reports(self, now: Millis) -> None:
        """Forget what clients reported that push no more."""
        self.reports.expire(now)

    def subscribe(self, sink: Sink) -> Callable[[], None]:
        """Report each later event to a sink, until the returned function is called."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    def apply(self, changes: Iterable[Change], now: Millis, *, polled: bool = False) -> None:
        """Take changes that a log reports, those of one group in the order of its log.

        - `polled`: Whether no log reported them: they are differences between two descriptions.
        """
        changes = list(changes)
        records = self.watcher.apply(changes, self.ends)
        touched = frozenset(change.group_id for change in changes if not isinstance(change, TopicNamed))
        if touched:
            self._report(GroupsChanged(touched), now)
        if polled:
            records = self._of_polls(records)
        self.rebalanced([self._exact(record) for record in records], now)
        for group_id in touched - self.groups.keys():
            self._reported.pop(group_id, None)
            self._journal.forget(group_id)
        if self.watcher.forgotten_until is not None:
            self.problem("There are so many rebalances that the oldest ones are forgotten.", now)

    def in_state(self, group_id: str, state: str | None, now: Millis) -> None:
        """Take the state that an admin API reports, until the next change of the group; None for the log's state."""
        group = self.groups.get(group_id)
        if group is None:
            return
        before = group.state
        group.described_state = state
        if group.state != before:
            self._report(GroupsChanged(frozenset((group_id,))), now)

    def listed(self, group_id: str, type_: str | None, state: str | None, now: Millis) -> None:
        """Take type and state of a group whose records are not followed, as brokers list it; None if they do not."""
        group = self.groups.get(group_id)
        if group is None or group.type is not None:
            return
        changed = group.listed_type != type_
        group.listed_type = type_
        self.in_state(group_id, state, now)
        if changed:
            self._report(GroupsChanged(frozenset((group_id,))), now)

    def journalled(self, records: Iterable[RebalanceRecord], now: Millis) -> None:
        """Take records of the brokers' journal. They replace those that follow from the log.

        A record waits some seconds for that of the log, if it may be read, and then counts alone. Those
        of unknown groups are left out.
        """
        log = self.sources.get(SourceKind.LOG)
        forbidden = log is not None and log.state == "forbidden"
        for record in records:
            group = self.groups.get(record.group_id)
            if group is None:
                continue
            told = self._journal.add(record)
            known = self._kept(group, told)
            if known is None:
                self._journal.wait(told, now if not forbidden else now - WAIT_MS)
                continue
            exact = replace(told, ended_at=known.ended_at)
            if exact != known:
                group.rebalances[group.rebalances.index(known)] = exact
                self.rebalanced([exact], now)

    def expire_journal(self, now: Millis) -> None:
        """Report rebalances that the journal has, and not the log, such as one that may not be read."""
        for record in self._journal.due(now):
            group = self.groups.get(record.group_id)
            if group is not None and self._kept(group, record) is None:
                insert(group.rebalances, record)
                self.rebalanced([record], now)

    def _exact(self, record: RebalanceRecord) -> RebalanceRecord:
        """Return what the journal has of this rebalance, stored in place of it, or the record itself."""
        told, group = self._journal.of(record), self.groups.get(record.group_id)
        if told is None or group is None:
            return record
        for old in (record, told):  # that of the journal is there if it was alone
            if old in group.rebalances:
                group.rebalances.remove(old)
        exact = replace(told, ended_at=record.ended_at)
        insert(group.rebalances, exact)
        return exact

    def _kept(self, group: WatchedGroup, told: RebalanceRecord) -> RebalanceRecord | None:
        """Return the group's record of the same rebalance as one of the journal."""
        found = nearest(group.rebalances, told)
        return found if found is not None and self._journal.of(found) == told else None

    def _of_polls(self, records: Iterable[RebalanceRecord]) -> list[RebalanceRecord]:
        """Mark records that compare two descriptions, and leave out those that the journal has."""
        kept = []
        for record in records:
            group = self.groups.get(record.group_id)
            if not self._journal.covers(record):
                kept.append(replace(record, polled=True))
                if group is not None:
                    put(group.rebalances, kept[-1])
            elif group is not None and record in group.rebalances:
                group.rebalances.remove(record)
        return kept

    def named_late(self, names: Mapping[UUID, str], now: Millis) -> None:
        """Take names of topics that were unknown when members received their partitions."""
        if not names:
            return
        self.watcher.name_topics(names)
        changed = [group.group_id for group in self.groups.values() if group.own_named(self.watcher.topic_names)]
        if changed:
            self._report(GroupsChanged(frozenset(changed)), now)

    def found(self, group: GroupFound, now: Millis) -> None:
        """Take the state of a group that an admin API described."""
        self.watcher.found(group, now)
        self._report(GroupsChanged(frozenset((group.group_id,))), now)

    def expire(self, read_up_to: Millis, now: Millis) -> None:
        """Report records that wait no longer for first commits.

        `read_up_to` is the time up to which the log has been read: `now`, once a source follows its end.
        """
        self.rebalanced(self.watcher.expire(read_up_to), now)

    def rebalanced(self, records: Iterable[RebalanceRecord], now: Millis) -> None:
        """Report records of rebalances that the groups have already."""
        for record in records:
            known = self._reported.setdefault(record.group_id, deque(maxlen=_MOST_AMENDED))
            # A static member that returns, and a group that was deleted, repeat a generation.
            again = (record.generation, record.ended_at) in known
            if not again:
                known.append((record.generation, record.ended_at))
            self._report(Rebalanced(record, again), now)

    def sampled(self, ends: Mapping[TopicPartition, int], now: Millis) -> None:
        """Take the end offsets of partitions, which were asked for after the last commit was seen."""
        for partition, end in ends.items():
            self.ends.setdefault(partition, EndOffsets()).add(now, end)
        self.sampled_at = now
        self._report(EndsSampled(), now)

    def stood_still(self, partition: TopicPartition, until: Millis) -> None:
        """Take that the partition still had its last end at this time."""
        table = self.ends.get(partition)
        if table is not None and table.end is not None:
            table.add(until, table.end)

    def started(self, starts: Mapping[TopicPartition, int]) -> None:
        """Take the earliest offsets of partitions. What lies before them is deleted."""
        self.starts.update(starts)
        for partition, start in starts.items():
            table = self.ends.get(partition)
            if table is not None:
                table.start = start

    def keep_ends(self, wanted: Set[TopicPartition]) -> None:
        """Forget the ends of all other partitions: no group needs them any more."""
        for partition in self.ends.keys() - wanted:
            del self.ends[partition]
        for partition in self.starts.keys() - wanted:
            del self.starts[partition]

    def source(self, kind: SourceKind, state: str, now: Millis, detail: str | None = None) -> None:
        """Take the state of a source, and report it if it changed."""
        before = self.sources.get(kind)
        if before is None or (before.state, before.detail) != (state, detail):
            since = before.since if before is not None and before.state == state else now
            self.sources[kind] = SourceState(kind, state, since, detail)
            self._report(SourceChanged(self.sources[kind]), now)

    def problem(self, text: str, now: Millis, *, about: str | None = None) -> None:
        """Report a problem, unless it was reported before.

        - `about`: What cannot be read or known, for `solved`. It has one problem at a time.
        """
        text = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
        if about is not None and self._about.get(about, text) != text:
            self.solved(about, now)
        if about is not None and len(self._about) < _MOST_COUNTED:
            self._about[about] = text
        if text in self.problems:
            return
        if len(self.problems) - bool(self._left_out) < _MOST_PROBLEMS:
            self._count_no_more(text)  # it was left out while there was no room
            self.problems[text] = None
            self._report(ProblemFound(text), now)
        elif len(self._left_out) < _MOST_COUNTED:
            self.problems.pop(_left_out(len(self._left_out)), None)
            self._left_out.add(hash(text))
            self.problems[_left_out(len(self._left_out))] = None

    def solved(self, about: str, now: Millis) -> None:
        """Withdraw the problem with this, if there is one, and it is about nothing else."""
        text = self._about.pop(about, None)
        if text is None or text in self._about.values():
            return
        if text in self.problems:
            del self.problems[text]
            self._report(ProblemSolved(text), now)
        else:
            self._count_no_more(text)

    def _count_no_more(self, text: str) -> None:
        if hash(text) in self._left_out:
            self.problems.pop(_left_out(len(self._left_out)), None)
            self._left_out.remove(hash(text))
            if self._left_out:
                self.problems[_left_out(len(self._left_out))] = None

    @property
    def unsolved(self) -> Set[str]:
        """What the problems are about that may be solved."""
        return self._about.keys()

    def snapshot(self, now: Millis) -> Snapshot:
        """Return the present state as a document."""
        return Snapshot(now, self.watcher, self.ends, self.history_from, self.counts, tuple(self.problems))

    def _report(self, event: LiveEvent, now: Millis) -> None:
        for sink in list(self._sinks):
            sink(event, now)


def _left_out(number: int) -> str:
    more = "More than " if number >= _MOST_COUNTED else ""
    return f"{more}{number} further problems are left out."
