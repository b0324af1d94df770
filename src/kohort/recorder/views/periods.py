"""Periods in a group's life, from the journal: a member processes a partition, no member does, or there is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from kohort.model import Millis, TopicPartition
from kohort.recorder.record import PartitionChange, RebalanceRecord


@dataclass(frozen=True, slots=True)
class Span:
    """Period in which a member processes a partition."""

    partition: TopicPartition
    owner: str
    begin: Millis
    end: Millis


@dataclass(frozen=True, slots=True)
class Gap:
    """Period in which a partition is dark: the group has members, and none of them processes it."""

    partition: TopicPartition
    begin: Millis
    end: Millis


@dataclass(frozen=True, slots=True)
class Empty:
    """Period in which the group has no members."""

    begin: Millis
    end: Millis


def spans(records: Sequence[RebalanceRecord], begin: Millis, end: Millis) -> list[Span]:
    """Return the periods in which members processed partitions, clipped to the given time.

    `records` are in journal order. Owners are member IDs.
    """
    finished: list[Span] = []
    running: dict[TopicPartition, tuple[str, Millis]] = {}
    seen: set[TopicPartition] = set()
    for record in records:
        for change in record.partitions:
            partition = TopicPartition(change.topic, change.partition)
            if partition not in seen and change.previous_owner is not None:
                running[partition] = change.previous_owner, begin  # the group is older than the journal
            seen.add(partition)
            _apply(change, partition, record, running, finished)
    finished += [Span(partition, owner, since, end) for partition, (owner, since) in running.items()]
    clipped = [Span(s.partition, s.owner, max(s.begin, begin), min(s.end, end)) for s in finished]
    return [span for span in clipped if span.end > span.begin]


def _apply(
    change: PartitionChange,
    partition: TopicPartition,
    record: RebalanceRecord,
    running: dict[TopicPartition, tuple[str, Millis]],
    finished: list[Span],
) -> None:
    stopped_at = change.revoked_at
    if stopped_at is None and change.owner is None:
        return  # taken by a cooperative assignor, and still processed until the follow-up
    if partition in running:
        owner, since = running.pop(partition)
        finished.append(Span(partition, owner, since, record.ended_at if stopped_at is None else stopped_at))
    if change.owner is not None:
        running[partition] = change.owner, change.first_read_at or change.assigned_at or record.ended_at


def empties(records: Sequence[RebalanceRecord], end: Millis) -> list[Empty]:
    """Return the periods without members, up to `end`.

    A group is empty from the moment at which its last member ends. If several members end in one
    rebalance, that is the end of the rebalance.
    """
    found: list[Empty] = []
    since: Millis | None = None
    for record in records:
        if since is not None and record.members_after:
            found.append(Empty(since, record.started_at or record.ended_at))
            since = None
        elif since is None and not record.members_after:
            since = record.ended_at if len(record.went) > 1 else record.started_at or record.ended_at
    return found if since is None or since >= end else [*found, Empty(since, end)]


def gaps(drawn: Sequence[Span], end: Millis, without_members: Sequence[Empty] = ()) -> list[Gap]:
    """Return the dark periods of all partitions.

    A partition is not dark before its first owner. It ceases to be dark when the group becomes
    empty, until its next owner: nobody waits for a group that somebody stopped.
    """
    found: list[Gap] = []
    last: dict[TopicPartition, Millis] = {}
    for span in sorted(drawn, key=lambda span: span.begin):
        if span.partition in last:
            found.append(Gap(span.partition, last[span.partition], span.begin))
        last[span.partition] = span.end
    found += [Gap(partition, stopped, end) for partition, stopped in last.items()]
    cut = [Gap(gap.partition, gap.begin, _emptied(gap, without_members)) for gap in found]
    return [gap for gap in cut if gap.end > gap.begin]


def _emptied(gap: Gap, without_members: Sequence[Empty]) -> Millis:
    """Return the end of the gap, or the time at which the group became empty during it."""
    return min([gap.end, *(none.begin for none in without_members if none.begin < gap.end and none.end >= gap.begin)])
