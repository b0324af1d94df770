"""A rebalance as a trace: the root is the rebalance, below it a span for each member and for each of its steps. Pure.

All IDs follow from the cluster, the group, the generation and the end of the rebalance by the log.
So a rebalance that is exported again, by this process or by another one, is the same trace. A group
that is deleted and made again repeats its generations, at other times.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from kohort.group_events import Cause
from kohort.model import Millis
from kohort.recorder import PartitionChange, RebalanceRecord, is_eager, needless_moves
from kohort.watch.waterfall import MemberSteps, Step, waterfall

HURTS_MS: Millis = 10_000
"""Time for which a partition must be dark to give the trace the status error."""
MOST_MEMBERS = 200
"""Number of members that get spans, those with the longest steps first."""
MOST_DARK = 100
"""Number of dark partitions that get spans, the longest first."""
_MOST_CHARACTERS = 256
_MOST_TRIGGERS = 20
_WAITED_FOR = (Cause.REBALANCE_TIMEOUT.value, Cause.SYNC_MISSED.value)
"""Causes of removals for which the other members had to wait."""

Attribute = str | int | bool | tuple[str, ...]
SpanId = tuple[int, int]
"""ID of a trace and of a span in it."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at one time in a span."""

    name: str
    at: Millis
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class SpanValue:
    """One span. Text from the cluster is bounded, and valid Unicode."""

    id: SpanId
    parent: SpanId | None
    name: str
    start: Millis
    end: Millis
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[tuple[SpanId, str], ...] = ()
    """Related spans, each with the relation."""
    error: str | None = None
    """What hurt, as a sentence."""


class Ended(NamedTuple):
    """What tells a rebalance from the others of its group."""

    generation: int
    at: Millis


@dataclass(frozen=True, slots=True)
class Earlier:
    """Rebalances of the group to which the trace of a later one links."""

    previous: Ended | None = None
    cause: Ended | None = None
    """The one that made it necessary."""


def ended(record: RebalanceRecord) -> Ended:
    """Return what tells this rebalance from the others of its group."""
    return Ended(record.generation, record.ended_at)


def earlier_ones(record: RebalanceRecord, of_group: Iterable[RebalanceRecord]) -> Earlier:
    """Return the rebalances to link to, of those that the group has had."""
    before = sorted(
        (each.ended_at, each.generation)
        for each in of_group
        if each.is_rebalance and (each.ended_at, each.generation) < (record.ended_at, record.generation)
    )
    known = [Ended(generation, at) for at, generation in before]
    causes = [each for each in known if each.generation == record.follow_up_of]
    return Earlier(known[-1] if known else None, causes[-1] if causes else None)


def root_of(cluster_id: str, group_id: str, rebalance: Ended) -> SpanId:
    """Return the IDs of the root span of a rebalance."""
    name = f"{len(cluster_id)}:{cluster_id}{len(group_id)}:{group_id}{rebalance.generation}@{rebalance.at}"
    return _hash(name, 16), _hash(f"{name}/", 8)


def rebalance_spans(record: RebalanceRecord, *, cluster_id: str, earlier: Earlier) -> list[SpanValue]:
    """Return the spans of a rebalance, the root first."""
    root = root_of(cluster_id, record.group_id, ended(record))
    members = [member for member in waterfall(record) if member.first_time is not None]
    shown = sorted(members, key=lambda member: _start(member) - _end(member))[:MOST_MEMBERS]
    dark = sorted((change for change in record.partitions if _is_dark(record, change)), key=_shortness)
    children = [*_of_members(root, shown), *_of_partitions(root, dark[:MOST_DARK])]
    hurt = hurting(record)
    attributes = _attributes(record) | {"messaging.kafka.cluster.id": _text(cluster_id)}
    if len(shown) < len(members):
        attributes["kohort.rebalance.members_omitted"] = len(members) - len(shown)
    if len(dark) > MOST_DARK:
        attributes["kohort.rebalance.dark_partitions_omitted"] = len(dark) - MOST_DARK
    start = record.started_at
    if start is None:
        start = min([record.ended_at, *(child.start for child in children)])
    return [
        SpanValue(
            root,
            None,
            f"rebalance {_text(record.group_id)}",
            start,
            max([record.ended_at, *(child.end for child in children)]),
            attributes,
            tuple(_triggers(record, start)),
            tuple(_links(record.group_id, cluster_id, earlier)),
            f"{'; '.join(hurt)}." if hurt else None,
        ),
        *children,
    ]


def hurting(record: RebalanceRecord) -> list[str]:
    """Return why the rebalance hurt; empty if it did not."""
    reasons = []
    times = record.dark_times
    if times and max(times) >= HURTS_MS:
        long = sum(time >= HURTS_MS for time in times)
        reasons.append(f"{long} of {len(times)} partitions were dark for {HURTS_MS // 1000} s or more")
    late = [trigger for trigger in record.gone if trigger.cause in _WAITED_FOR]
    if late:
        reasons.append(f"{len(late)} members were removed after the others had waited for them")
    return reasons


def _attributes(record: RebalanceRecord) -> dict[str, Attribute]:
    name = "kohort.rebalance"
    attributes: dict[str, Attribute] = {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": _text(record.group_id),
        f"{name}.generation": record.generation,
        f"{name}.cause": _text(record.cause or "unknown"),
        f"{name}.eager": record.leader_id is not None and is_eager(record.protocol),
        f"{name}.members_before": len(record.before),
        f"{name}.members_after": record.members_after,
        f"{name}.members_came": len(record.came),
        f"{name}.members_gone": len(record.went),
        f"{name}.partitions_moved": len(record.moved),
        f"{name}.partitions_moved_needlessly": len(needless_moves(record)),
    }
    if record.protocol is not None:
        attributes[f"{name}.assignor"] = _text(record.protocol)
    if record.wall_ms is not None:
        attributes[f"{name}.wall_ms"] = record.wall_ms
    if times := record.dark_times:
        attributes[f"{name}.dark_partitions"] = len(times)
        attributes[f"{name}.dark_ms_total"] = sum(times)
        attributes[f"{name}.dark_ms_longest"] = max(times)
    return attributes


def _triggers(record: RebalanceRecord, start: Millis) -> Iterator[SpanEvent]:
    """Yield the triggers. Only the first one has a known time, the start; the others follow at the same time."""
    for trigger in record.triggers[:_MOST_TRIGGERS]:
        attributes: dict[str, Attribute] = {"kohort.rebalance.cause": _text(trigger.cause)}
        if trigger.member_id is not None:
            attributes["kohort.member.id"] = _text(trigger.member_id)
        if trigger.reason is not None:
            attributes["kohort.rebalance.reason"] = _text(trigger.reason)
        yield SpanEvent(_text(trigger.cause), start, attributes)


def _links(group_id: str, cluster_id: str, earlier: Earlier) -> Iterator[tuple[SpanId, str]]:
    if earlier.cause is not None:
        yield root_of(cluster_id, group_id, earlier.cause), "made this rebalance necessary"
    if earlier.previous is not None and earlier.previous != earlier.cause:
        yield root_of(cluster_id, group_id, earlier.previous), "previous rebalance"


def _of_members(root: SpanId, members: Iterable[MemberSteps]) -> Iterator[SpanValue]:
    for member in members:
        about: dict[str, Attribute] = {
            "kohort.member.id": _text(member.member_id),
            "messaging.client.id": _text(member.client_id),
        }
        span = root[0], _hash(f"{root}/member/{member.member_id}", 8)
        yield SpanValue(
            span, root, f"member {_text(member.client_id or member.member_id)}", _start(member), _end(member), about
        )
        for number, step in enumerate(member.steps):
            if step.start is not None or step.end is not None:
                yield _of_step((root[0], _hash(f"{root}/step/{number}/{member.member_id}", 8)), span, step)


def _of_step(span: SpanId, parent: SpanId, step: Step) -> SpanValue:
    """Return the span of a step. If one of its times is unknown, the span has no length and says so."""
    start, end = step.start, step.end
    attributes: dict[str, Attribute] = {"kohort.step.partitions": step.partitions}
    if step.waits_for is not None:
        attributes["kohort.step.waits_for"] = _text(step.waits_for)
    if start is None or end is None:
        attributes["kohort.step.unknown"] = "start" if start is None else "end"
        start = end = end if start is None else start
    assert start is not None and end is not None
    return SpanValue(span, parent, step.name.value, start, max(start, end), attributes)


def _of_partitions(root: SpanId, changes: Iterable[PartitionChange]) -> Iterator[SpanValue]:
    for change in changes:
        assert change.revoked_at is not None and change.first_read_at is not None
        attributes: dict[str, Attribute] = {
            "messaging.destination.name": _text(change.topic),
            "messaging.destination.partition.id": str(change.partition),
        }
        if change.previous_owner is not None:
            attributes["kohort.partition.previous_owner"] = _text(change.previous_owner)
        if change.owner is not None:
            attributes["kohort.partition.owner"] = _text(change.owner)
        span = root[0], _hash(f"{root}/dark/{change.partition}/{change.topic}", 8)
        end = max(change.revoked_at, change.first_read_at)
        yield SpanValue(span, root, f"dark {_text(str(change))}", change.revoked_at, end, attributes)


def _is_dark(record: RebalanceRecord, change: PartitionChange) -> bool:
    return not record.was_empty and change.dark_ms is not None


def _shortness(change: PartitionChange) -> tuple[int, str, int]:
    return -(change.dark_ms or 0), change.topic, change.partition


def _start(member: MemberSteps) -> Millis:
    return min(time for step in member.steps for time in (step.start, step.end) if time is not None)


def _end(member: MemberSteps) -> Millis:
    return max(time for step in member.steps for time in (step.start, step.end) if time is not None)


def _hash(name: str, size: int) -> int:
    """Return an ID of `size` bytes that is not 0, which would be invalid."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=size).digest()) or 1


def _text(text: str) -> str:
    """Return text from a cluster as an attribute may have it."""
    valid = text.encode("utf-8", "replace").decode()
    return valid if len(valid) <= _MOST_CHARACTERS else f"{valid[: _MOST_CHARACTERS - 1]}…"


_Key = tuple[str, Ended]
_SAME_MS: Millis = 30_000
"""Largest difference between two ends of the same rebalance, by different observers."""


class FinalRecords:
    """Records that wait until more is known about their rebalance: first reads come after the record.

    Each rebalance is returned once.
    """

    def __init__(self, since: Millis, *, wait_ms: Millis = 60_000, most: int = 10_000) -> None:
        """Wait for each record for up to `wait_ms`.

        - `since`: Time before which rebalances are history, which another process has exported.
        - `most`: Number of rebalances to remember. Of more, the oldest one no longer waits.
        """
        self._since = since
        self._wait_ms = wait_ms
        self._most = most
        self._waiting: dict[_Key, tuple[Millis, RebalanceRecord]] = {}
        self._returned: dict[_Key, None] = {}
        self._last: dict[tuple[str, int], tuple[Ended, str | None, bool]] = {}
        """Newest rebalance of each group with a generation, and who observed it."""

    def add(self, record: RebalanceRecord, now: Millis) -> None:
        """Take a record, or a later one of the same rebalance."""
        if not record.is_rebalance or record.ended_at < self._since:
            return
        key = self._key(record)
        if key in self._returned:
            return
        due, _ = self._waiting.get(key, (now + self._wait_ms, record))
        self._waiting[key] = due, record

    def _key(self, record: RebalanceRecord) -> _Key:
        """Return the key of the rebalance. The journal and the log may tell different ends of the same one."""
        end, of = ended(record), (record.group_id, record.generation)
        last = self._last.get(of)
        if last is not None and last[1:] != (record.source, record.polled) and abs(last[0].at - end.at) <= _SAME_MS:
            end = last[0]
        self._last[of] = end, record.source, record.polled
        return record.group_id, end

    def due(self, now: Millis) -> list[RebalanceRecord]:
        """Return the records that are final, in the order of their rebalances."""
        spare = len(self._waiting) - self._most
        ready = [
            key
            for number, (key, (due, record)) in enumerate(self._waiting.items())
            if due <= now or number < spare or _is_read(record)
        ]
        return self._return(ready)

    def rest(self) -> list[RebalanceRecord]:
        """Return all records as they are."""
        return self._return(list(self._waiting))

    def _return(self, keys: Iterable[_Key]) -> list[RebalanceRecord]:
        records = []
        for key in keys:
            _, record = self._waiting.pop(key)
            records.append(record)
            self._returned[key] = None
        for old in list(self._returned)[: max(0, len(self._returned) - self._most)]:
            del self._returned[old]
            group_id, end = old
            if self._last.get((group_id, end.generation), (None,))[0] == end:
                del self._last[group_id, end.generation]
        return sorted(records, key=lambda record: record.ended_at)


def _is_read(record: RebalanceRecord) -> bool:
    """Return whether each owner has read its new partitions, so that nothing is left to wait for."""
    return all(change.first_read_at is not None for change in record.partitions if change.owner is not None)
