"""The simulation's invariants, held to a real run: its log of events becomes what the simulation's checkers take.

Every record of `__consumer_offsets` goes, in the order of the log, to the checkers that look at a simulated
coordinator's disk (S1, S2, S4, S8), between what members said that they were given (S11) and what committers were told
and found (S7). What the log holds compacted (S10) and what the coordinators say in the end (S10) must be the same.
The test kit's checks (`kohort.testing.invariants`), which know nothing of Kohort's coordinators, take the records, too.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.member import OffsetAndMetadata
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.sim.checks.consumer_groups import GroupHistory, check_consumer_group
from kohort.sim.checks.durable_groups import DurableGroups
from kohort.sim.checks.durable_state import group_of, same
from kohort.sim.checks.group_progress import GroupProgress
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.processes.application import Application
from kohort.sim.violation import Violation
from kohort.testing import Checks, RecordsAppended
from kohort.wire.batches import BatchHeader, batches, decode_records
from kohort.wire.group_log.group_bytes import decode_key
from tests.chaos.history import Entry

_SLACK: Millis = 50
"""By so much the clocks of the processes may differ: members are heard earlier, answers later than they say."""
_TOPIC = "t"


class _Event(NamedTuple):
    at: Millis
    check: Callable[[], None]


def violations(history: Sequence[Entry]) -> Iterable[str]:
    """A sentence of each violation; of one partition of the coordinators' topic the first alone, which makes many."""
    run = _Run(history)
    for event in sorted(run.events(), key=attrgetter("at")):
        try:
            event.check()
        except Violation as violation:
            yield str(violation)
    yield from run.rest()


class _Told(GroupProgress):
    """The simulation's checks of progress. A committer's commits are told apart by what they commit."""

    def __init__(self, committers: set[str]) -> None:
        super().__init__()
        self._committers = committers

    def durable(self, group: str, topic_id: UUID, partition: TopicPartition, value: OffsetAndMetadata | None) -> None:
        # No topic is deleted there, and what clients tell has no ids.
        if value is not None and group in self._committers:
            value = told_apart(value.offset)
        super().durable(group, NO_TOPIC_ID, partition, value)


def told_apart(value: int) -> OffsetAndMetadata:
    """Return the commits of a committer."""
    return OffsetAndMetadata(value, str(value))


class _Run:
    """One history, its events as checks with their times."""

    def __init__(self, history: Sequence[Entry]) -> None:
        self._history = history
        self._progress = _Told({entry["group"] for entry in history if entry["kind"] == "committing"})
        self._topics = {UUID(entry["id"]): entry["topic"] for entry in history if entry["kind"] == "topic"}
        self._shards: dict[int, _Shard] = {}
        self._asked: dict[tuple[str, Millis], int] = {}

    def events(self) -> Iterator[_Event]:
        """In no order; those of one time in the order in which they come."""
        if not any(entry["kind"] == "records" for entry in self._history):
            return
        for entry in self._history:
            yield from self._of_members(entry)
        for entry in self._history:
            if entry["kind"] == "records":
                shard = self._shards.setdefault(entry["partition"], _Shard(self._progress, self._topics))
                yield from shard.events(base64.b64decode(entry["data"]))

    def rest(self) -> Iterator[str]:
        """Return the violations at the end; none for a run that recorded no records."""
        if not self._shards:
            return
        for entry in self._history:
            if entry["kind"] == "stands":
                yield from self._stands(entry)
        for shard in self._shards.values():
            yield from shard.compacted()

    def _of_members(self, entry: Entry) -> Iterator[_Event]:
        progress, at = self._progress, entry["at"]
        match entry["kind"]:
            case "read":
                yield _Event(at - _SLACK, lambda: self._read(entry))
            case "committing":
                # It represents the member that has processed everything below.
                yield _Event(at - _SLACK, lambda: self._claim(entry["group"], entry["value"]))
            case "committed":
                who = _application(entry["group"], entry["group"])
                yield _Event(at + _SLACK, lambda: progress.committed(who, {_tp(0): told_apart(entry["value"])}))
            case "found":
                who, key = _application(entry["group"], entry["group"]), (entry["group"], entry["since"])
                yield _Event(entry["since"], lambda: self._asked.update({key: progress.asks(who, None, _tp(0))}))
                found = None if entry["value"] < 0 else told_apart(entry["value"])
                yield _Event(at + _SLACK, lambda: progress.found(who, None, _tp(0), found, self._asked[key]))

    def _read(self, entry: Entry) -> None:
        who = _application(entry["group"], entry["member"])
        for partition, first, last in entry["spans"]:
            self._progress.processed(who, None, _tp(partition), first, last + 1)

    def _claim(self, group: str, value: int) -> None:
        self._progress.covered[group, NO_TOPIC_ID, _tp(0)] = value

    def _stands(self, entry: Entry) -> Iterator[str]:
        group, partition = entry["group"], _tp(entry["partition"])
        written = self._progress.written[group, NO_TOPIC_ID, partition].values
        last = written[-1].offset if written and written[-1] is not None else -1
        if last != entry["value"]:
            yield str(Violation("S10", f"{group} stands at {entry['value']} of {partition}, and its log at {last}"))


class _Shard:
    """One partition of `__consumer_offsets`."""

    def __init__(self, progress: GroupProgress, topics: Mapping[UUID, str]) -> None:
        self._checks = Checks()
        self._durable = DurableGroups(progress)
        self._topics = topics
        self._pasts: defaultdict[str, GroupHistory] = defaultdict(GroupHistory)
        self._at: Millis = 0
        self._failed = False

    def events(self, data: bytes) -> Iterator[_Event]:
        """A batch is what one request or timer wrote: the groups that it names must be sound behind it, not within."""
        buffer = bytearray(data)
        for position, header in batches(buffer):
            self._at = max(self._at, header.max_timestamp)
            pairs = [
                (bytes(record.key or b""), None if record.value is None else bytes(record.value))
                for record in decode_records(buffer, position)
            ]
            yield _Event(self._at, partial(self._take, pairs, header))

    def _take(self, pairs: Sequence[tuple[bytes, bytes | None]], header: BatchHeader) -> None:
        if self._failed:
            return
        try:
            records = self._durable.written(pairs)
            for group_id in dict.fromkeys(_group_of(key) for key, _ in pairs):
                group = group_of(self._durable.shard, group_id)
                if not isinstance(group, ConsumerGroup):
                    self._pasts.pop(group_id, None)
                    continue
                past, sessions = self._pasts[group_id], group.members.keys()
                check_consumer_group(group, past, sessions, self._topics, image=None, assignor="")
            for found in self._checks.observe(RecordsAppended(header.max_timestamp, 0, 0, records)):
                raise Violation(found.invariant.letter, f"{found.what} {found.why}")
        except Violation as violation:
            self._failed = True
            raise Violation(violation.invariant, f"{violation.detail} (offset {header.base_offset})") from None

    def compacted(self) -> Iterator[str]:
        """Only the newest record of each key must give the same groups."""
        try:
            if not self._failed:
                same(self._durable.compacted(), self._durable.shard, "compacted")
        except Violation as violation:
            yield str(violation)


def _group_of(key: bytes) -> str:
    decoded = decode_key(key)
    return str(getattr(decoded, "group", None) or getattr(decoded, "group_id", ""))


def _application(group: str, name: str) -> Application:
    return Application(name, ApplicationSettings(group, (_TOPIC,)), "", GroupProgress(), 0)


def _tp(partition: int) -> TopicPartition:
    return TopicPartition(_TOPIC, partition)
