"""Markers in records, and an audit of what an application processed: skipped, read twice, or in another order.

    numbers = SequenceNumbers("p1")
    audit = SequenceAudit("orders-app")
    broker.observe(audit.observe)
    producer.send("orders", value, partition=0, headers=[numbers.next("orders", 0)])
    ...
    audit.processed("member-1", record.topic, record.partition, record.offset, record.headers)
    assert not audit.findings(numbers)

A marker numbers the records of one producer in one partition from 0. The audit attributes each finding to what happened
in the group when the order broke: a rebalance, a crash, or a commit.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from kohort.errors import KohortError
from kohort.group_events import Cause, GroupEpochBumped, MemberGone, RebalanceStarted
from kohort.model import TopicPartition
from kohort.testing.events import Event, GroupChanged, RecordsAppended
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

HEADER = "kohort-sequence"
"""Name of the header with the marker."""
_REMEMBERED = 10_000
_CRASHES = {Cause.SESSION_EXPIRED, Cause.CONNECTION_LOST, Cause.STATIC_MEMBER_RETURNED}


class SequenceNumbers:
    """Markers of one producer. It may be used from several threads."""

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.sent: dict[TopicPartition, int] = {}
        """Number of markers of each partition so far."""
        self._lock = threading.Lock()

    def next(self, topic: str, partition: int) -> tuple[str, bytes]:
        """Return the header of the next record for this partition, where it must be sent after earlier ones."""
        place = TopicPartition(topic, partition)
        with self._lock:
            number = self.sent.get(place, 0)
            self.sent[place] = number + 1
        return HEADER, f"{self.producer}:{number}".encode()


class Kind(Enum):
    """What is wrong with the order."""

    SKIPPED = "skipped"
    TWICE = "read twice"
    REORDERED = "reordered"
    UNREAD = "not read"


class At(Enum):
    """What happened when the order broke."""

    REBALANCE = "rebalance"
    CRASH = "crash"
    COMMIT = "commit"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Finding:
    """Records of one producer in one partition that were not processed once and in order."""

    kind: Kind
    place: TopicPartition
    producer: str
    first: int
    """First number of the records."""
    last: int
    before: str
    """Member that processed the partition before; empty if none did."""
    member: str
    """Member at which the order broke; empty if no member read on."""
    at: At
    why: str
    """What happened, as a sentence."""
    event: Event | None

    def __str__(self) -> str:
        numbers = f"record {self.first}" if self.first == self.last else f"records {self.first} to {self.last}"
        return f"{self.place}: {numbers} of {self.producer} {self.kind.value}. {self.why}"


@dataclass(slots=True)
class _Span:
    """Consecutive records that one member processed; `began` and `ended` order it among the events."""

    member: str
    first: int
    last: int
    first_offset: int
    last_offset: int
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class _Change:
    """Something that happened in the group."""

    number: int
    at: At
    what: str
    event: Event
    place: TopicPartition | None = None
    offset: int = -1


class SequenceAudit:
    """The audit of one group. Its methods may be called from any thread; memory grows with breaks, not with records."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._lock = threading.Lock()
        self._number = 0
        self._spans: dict[tuple[TopicPartition, str], list[_Span]] = {}
        """What was processed of each producer in each partition, in the order of processing."""
        self._changes: deque[_Change] = deque(maxlen=_REMEMBERED)

    def processed(
        self,
        member: str,
        topic: str,
        partition: int,
        offset: int,
        headers: Iterable[tuple[str, bytes | None]] | None,
    ) -> None:
        """Record that a member, by its client ID, has processed a record. Records without a marker are ignored."""
        marker = next((value for name, value in headers or () if name == HEADER), None)
        if marker is None:
            return
        producer, separator, text = marker.decode(errors="replace").rpartition(":")
        if not separator or not text.isdecimal():
            raise KohortError(
                f"The header {HEADER} of offset {offset} of {topic}-{partition} is no marker: {marker!r}."
            )
        number = int(text)
        with self._lock:
            self._number += 1
            spans = self._spans.setdefault((TopicPartition(topic, partition), producer), [])
            last = spans[-1] if spans else None
            if last is not None and last.member == member and number == last.last + 1:
                last.last, last.last_offset, last.ended = number, offset, self._number
            else:
                spans.append(_Span(member, number, number, offset, offset, self._number, self._number))

    def observe(self, event: Event) -> None:
        """Take an event of the broker."""
        with self._lock:
            self._number += 1
            self._changes.extend(self._changes_of(event))

    def findings(self, *numbers: SequenceNumbers) -> list[Finding]:
        """Return what was not processed once and in order so far.

        With the `numbers` of the producers, records at the end that nobody processed are found, too.
        """
        found: list[Finding] = []
        with self._lock:
            for (place, producer), spans in self._spans.items():
                found += self._of(place, producer, spans)
            for sent in numbers:
                found += self._unread(sent)
        return found

    def _changes_of(self, event: Event) -> Iterator[_Change]:
        if isinstance(event, RecordsAppended):
            for record in event.records:
                key, value = record.key, record.value
                if (
                    isinstance(key, OffsetCommitKey)
                    and isinstance(value, OffsetCommitValue)
                    and key.group == self._group
                ):
                    place = TopicPartition(key.topic, key.partition)
                    what = f"The group committed offset {value.offset}."
                    yield _Change(self._number, At.COMMIT, what, event, place, value.offset)
        elif isinstance(event, GroupChanged) and event.event.group_id == self._group:
            match event.event:
                case MemberGone(member=member, cause=cause) if cause in _CRASHES:
                    what = f"Member {member.client_id} was removed: {cause.value}."
                    yield _Change(self._number, At.CRASH, what, event)
                case RebalanceStarted(cause=cause) | GroupEpochBumped(cause=cause):
                    yield _Change(self._number, At.REBALANCE, f"A rebalance began: {cause.value}.", event)

    def _of(self, place: TopicPartition, producer: str, spans: list[_Span]) -> Iterator[Finding]:
        covered: set[tuple[int, int]] = set()
        everything = _merged((span.first, span.last) for span in spans)
        reached, before = -1, None
        for span in spans:
            if span.first > reached + 1:
                for first, last in _without((reached + 1, span.first - 1), everything):
                    yield self._finding(Kind.SKIPPED, place, producer, first, last, before, span)
            elif span.first <= reached:
                back = span.first, min(span.last, reached)
                late = _without(back, _merged(covered))
                for first, last in late:
                    yield self._finding(Kind.REORDERED, place, producer, first, last, before, span)
                for first, last in _without(back, late):
                    yield self._finding(Kind.TWICE, place, producer, first, last, before, span)
            covered.add((span.first, span.last))
            reached, before = max(reached, span.last), span

    def _unread(self, numbers: SequenceNumbers) -> Iterator[Finding]:
        for place, count in sorted(numbers.sent.items()):
            spans = self._spans.get((place, numbers.producer), [])
            reached = max((span.last for span in spans), default=-1)
            if reached + 1 < count:
                before = spans[-1].member if spans else ""
                why = "No member has processed it." if reached + 2 == count else "No member has processed them."
                yield Finding(
                    Kind.UNREAD, place, numbers.producer, reached + 1, count - 1, before, "", At.NOTHING, why, None
                )

    def _finding(
        self, kind: Kind, place: TopicPartition, producer: str, first: int, last: int, before: _Span | None, span: _Span
    ) -> Finding:
        at, why, event = self._attributed(kind, place, before, span)
        who = "" if before is None else before.member
        return Finding(kind, place, producer, first, last, who, span.member, at, why, event)

    def _attributed(
        self, kind: Kind, place: TopicPartition, before: _Span | None, span: _Span
    ) -> tuple[At, str, Event | None]:
        """Return what happened between two spans, as a sentence with the event."""
        since = 0 if before is None else before.ended
        commit = next(
            (change for change in reversed(self._changes) if change.place == place and change.number < span.began),
            None,
        )
        stood = (
            "The group had committed nothing." if commit is None else f"The group had committed offset {commit.offset}."
        )
        if kind is Kind.SKIPPED and commit is not None and commit.offset == span.first_offset:
            return At.COMMIT, f"{commit.what} {span.member} began there.", commit.event
        between = [change for change in self._changes if since < change.number < span.began]
        for at in (At.CRASH, At.REBALANCE):
            changes = [change for change in between if change.at is at]
            if changes:
                return at, f"{changes[0].what} {stood} {span.member} went on at {span.first_offset}.", changes[0].event
        who = span.member if before is None or before.member == span.member else f"{span.member} after {before.member}"
        why = f"No rebalance or crash happened: {who} read on at offset {span.first_offset} by itself. {stood}"
        return At.NOTHING, why, None


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return inclusive ranges that do not overlap or touch, in order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _without(whole: tuple[int, int], parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return what is left of an inclusive range without parts, which do not overlap and are in order."""
    left, (start, end) = [], whole
    for first, last in parts:
        if last < start or first > end:
            continue
        if first > start:
            left.append((start, first - 1))
        start = last + 1
    if start <= end:
        left.append((start, end))
    return left
