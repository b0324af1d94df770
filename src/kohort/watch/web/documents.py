"""Documents of the web API: from `Live` and the histories to JSON. Pure: time is an argument."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from typing import Any

from kohort.model import Millis
from kohort.recorder import RebalanceRecord, comings, name_of, returns
from kohort.recorder import flapping as flapping_episodes
from kohort.telemetry import ClientTelemetry
from kohort.watch import Live, PartitionProgress, SourceState, WatchedGroup, WatchedMember, waterfall
from kohort.watch.findings import findings, hurts
from kohort.watch.history import Histories, Timeline, group_lag
from kohort.watch.live import GroupsChanged, LiveEvent, Rebalanced
from kohort.watch.telemetry import figures
from kohort.watch.web.facts import MOST_LISTED, GroupFacts, RebalanceFacts

HOUR_MS: Millis = 3_600_000
MOST_RECORDS = 1_000
"""Maximum number of rebalances that one answer has."""
_AGE_MS: Millis = 3_000
"""Age at which a summary is made anew if only offsets changed."""


class NotFound(Exception):
    """No such group or rebalance. The message is for the user."""


@dataclass(frozen=True, slots=True)
class ClusterName:
    """What the page calls the cluster."""

    bootstrap: str
    name: str | None = None
    id: str | None = None


@dataclass(slots=True)
class _Summary:
    """Summary of a group as JSON, and the figures by which the next one is compared."""

    made_at: Millis
    shape: tuple[Any, ...]
    data: bytes


@dataclass(slots=True)
class Documents:
    """Documents about the groups of `live`. `live.subscribe(documents.sink)` tells it which groups changed."""

    live: Live
    histories: Histories
    cluster: ClusterName
    dirty: set[str] = field(default_factory=set)
    """Groups whose summaries are out of date."""
    _facts: dict[str, GroupFacts] = field(default_factory=dict)
    _summaries: dict[str, _Summary] = field(default_factory=dict)

    def sink(self, event: LiveEvent, now: Millis) -> None:
        """Take an event."""
        match event:
            case GroupsChanged(group_ids):
                self.dirty |= group_ids
                for group_id in group_ids - self.live.groups.keys():
                    self.refresh(group_id, now)  # no page may be open that asks for it
            case Rebalanced(record):
                if record.group_id in self.live.groups:
                    self.dirty.add(record.group_id)

    # -- summaries

    def refresh(self, group_id: str, now: Millis) -> None:
        """Make the summary of a group anew, unless it is recent and only offsets changed.

        A group that is gone loses its summary.
        """
        group, old = self.live.groups.get(group_id), self._summaries.get(group_id)
        if group is None:
            self.dirty.discard(group_id)
            self._facts.pop(group_id, None)
            self._summaries.pop(group_id, None)
            return
        shape = self._shape(group)
        if old is not None and old.shape == shape and 0 <= now - old.made_at < _AGE_MS:
            return
        self.dirty.discard(group_id)
        self._summaries[group_id] = _Summary(now, shape, as_json(self._summary(group, now)))

    def groups(self, now: Millis) -> bytes:
        """Return the document of all groups, from their present summaries."""
        live = self.live
        head = {
            "at": now,
            "cluster": asdict(self.cluster),
            "history_from": live.history_from,
            "sources": [source_json(source) for source in live.sources.values()],
            "problems": list(live.problems),
            "log": asdict(live.counts),
        }
        summaries = (self.summary(group_id, now) for group_id in sorted(live.groups))
        return as_json(head)[:-1] + b',"groups":[' + b",".join(summaries) + b"]}"

    def summary(self, group_id: str, now: Millis) -> bytes:
        """Return the summary of a group as it was last made."""
        if group_id not in self._summaries:
            self.refresh(group_id, now)
        return self._summaries[group_id].data

    def summaries(self) -> dict[str, bytes]:
        """Return the summaries as they were last made, by group."""
        return {group_id: summary.data for group_id, summary in self._summaries.items()}

    def _shape(self, group: WatchedGroup) -> tuple[Any, ...]:
        """Return what makes a summary out of date at once."""
        last = group.rebalances[-1] if group.rebalances else None
        return (group.state, group.epoch, len(group.members), len(group.rebalances), last)

    def _summary(self, group: WatchedGroup, now: Millis) -> dict[str, Any]:
        history = self.histories.of(group.group_id, now)
        records, seconds = group_lag(self.live, group, now)
        history.lags.add(now, seconds)
        facts = list(self._facts_of(group).newest_first(group, now - HOUR_MS))
        dark = [each.dark_ms_total for each in facts if each.dark_ms_total is not None]
        dark += [now - max(since, now - HOUR_MS) for since in group.dark_now.values()]
        why = hurts(
            group,
            group.rebalances,
            now,
            ends=self.live.ends,
            lags=tuple(history.lags.points),
            telemetry=self.live.telemetry,
        )
        last = facts[0] if facts else next(self._facts_of(group).newest_first(group), None)
        owned = sum(len(member.owned) for member in group.members.values())
        unowned = len(group.commits.keys() - group.owners.keys()) if group.commits else 0
        return {
            "group": group.group_id,
            "type": group.shown_type,
            "state": group.state,
            "members": len(group.members),
            "partitions": owned + unowned,
            "lag": records,
            "lag_seconds": None if seconds is None else round(seconds, 3),
            "lag_series": [
                [at, None if value is None else round(value, 1)] for at, value in history.lags.since(now - HOUR_MS)
            ],
            "rebalances_1h": len(facts),
            "dark_seconds_1h": sum(dark) / 1000 if dark or not facts else None,
            "dark_now": len(group.dark_now),
            "last_rebalance": None if last is None else _last_json(last),
            "hurts": bool(why),
            "hurts_because": why,
        }

    # -- one group

    def group(self, group_id: str, now: Millis) -> dict[str, Any]:
        """Return the document of a group. Raises NotFound."""
        group, live = self._group(group_id), self.live
        facts = self._facts_of(group)
        lags = self.histories.of(group_id, now).lags.points
        found = findings(group, group.rebalances, now, ends=live.ends, lags=tuple(lags), telemetry=live.telemetry)
        first = zip(facts.newest_first(group), range(MOST_LISTED), strict=False)
        listed = [each.to_json(pending=group.is_pending(each.record)) for each, _ in first]
        hour = [each.record for each in facts.newest_first(group, now - HOUR_MS)][::-1]
        joins = _joins(group, hour)
        flapping = {
            each.came.member.member_id for episode in flapping_episodes(returns(hour)) for each in episode.returns
        }
        joined = facts.joined_at(group)
        progress = live.snapshot(now).progress(group)
        return self._summary(group, now) | {
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "leader_id": group.leader_id,
            "member_list": [
                _member(member, joins, flapping, live.telemetry.get(member_id)) | {"since": joined.get(member_id)}
                for member_id, member in sorted(group.members.items())
            ],
            "partition_list": [_partition(each) for each in progress],
            "findings": [each.to_json() for each in found],
            "rebalances": listed,
        }

    def rebalances(self, group_id: str, since: Millis, limit: int) -> bytes:
        """Return the records of a group's rebalances that ended at `since` or later, newest first. Raises NotFound."""
        group = self._group(group_id)
        facts = self._facts_of(group).newest_first(group, since)
        records = [record_json(each, group) for each, _ in zip(facts, range(min(limit, MOST_RECORDS)), strict=False)]
        return b'{"rebalances":[' + b",".join(records) + b"]}"

    def rebalance(self, group_id: str, generation: int) -> bytes:
        """Return the record of one rebalance, with the steps of its members. Raises NotFound."""
        group = self._group(group_id)
        for each in self._facts_of(group).newest_first(group):
            if each.record.generation == generation:
                steps = [member.to_json() for member in waterfall(each.record)]
                return record_json(each, group)[:-1] + b',"waterfall":' + as_json(steps) + b"}"
        raise NotFound(f"The group has no rebalance with generation {generation} in the history that is kept.")

    def timeline(self, group_id: str, start: Millis, end: Millis) -> Timeline:
        """Return the owners of a group's partitions over time. Raises NotFound."""
        self._group(group_id)
        return self.histories.timeline(group_id, start, end)

    def event_of(self, record: RebalanceRecord) -> bytes | None:
        """Return a rebalance as the data of an event; None if its group is gone, or its record was replaced."""
        group = self.live.groups.get(record.group_id)
        if group is None:
            return None
        for each in self._facts_of(group).newest_first(group, record.ended_at):
            if each.record is record:
                return b'{"group":' + as_json(record.group_id) + b',"record":' + record_json(each, group) + b"}"
        return None

    def _group(self, group_id: str) -> WatchedGroup:
        group = self.live.groups.get(group_id)
        if group is None:
            raise NotFound("There is no such group now.")
        return group

    def _facts_of(self, group: WatchedGroup) -> GroupFacts:
        return self._facts.setdefault(group.group_id, GroupFacts())


def as_json(value: object) -> bytes:
    """Return JSON in ASCII, without a line break, so that it is one line of an event.

    Numbers that JSON does not have, which clients may claim of themselves, become null.
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False).encode("ascii")


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def record_json(facts: RebalanceFacts, group: WatchedGroup) -> bytes:
    """Return the record of a group's rebalance as JSON."""
    pending = b"true" if group.is_pending(facts.record) else b"false"
    return facts.record.to_json()[:-1] + b',"pending":' + pending + b"}"


def source_json(source: SourceState) -> dict[str, Any]:
    """Return the state of a source for `json.dumps`."""
    return {
        "kind": source.kind.value,
        "state": source.state,
        "since": source.since,
        "detail": source.detail,
        "cannot": _CANNOT.get(source.kind.value),
    }


_CANNOT = {
    "log": "The log has the result of a rebalance, not its requests: a member that left and one whose session"
    " expired look alike.",
    "journal": "It has the groups of Kohort's brokers and gateways only, each rebalance up to a minute late.",
    "telemetry": "It has what clients say about themselves, and only of clients that push (Java, librdkafka).",
    "admin": "Rebalances between two questions are missed, and causes are unknown.",
}
"""What a source cannot know, by its kind."""


def _last_json(facts: RebalanceFacts) -> dict[str, Any]:
    record = facts.record
    return {
        "generation": record.generation,
        "at": record.ended_at,
        "cause": record.cause,
        "moved": facts.moved,
    }


def _joins(group: WatchedGroup, hour: Iterable[RebalanceRecord]) -> dict[str, int]:
    """Return how often each member joined, by its ID.

    A member that comes back has another ID and the same name. If several members have one name, only the ID tells
    which of them joined.
    """
    came = [coming.member for coming in comings(hour) if coming.came]
    by_name, by_id = Counter(map(name_of, came)), Counter(member.member_id for member in came)
    present = Counter(name_of(member.facts) for member in group.members.values())
    return {
        member_id: by_name[name] if present[name] == 1 else by_id[member_id]
        for member_id, member in group.members.items()
        for name in (name_of(member.facts),)
    }


def _member(
    member: WatchedMember,
    joins: Mapping[str, int],
    flapping: Set[str],
    telemetry: ClientTelemetry | None,
) -> dict[str, Any]:
    member_id = member.facts.member_id
    return {
        "member_id": member_id,
        "client_id": member.facts.client_id,
        "client_host": member.facts.client_host,
        "instance_id": member.facts.instance_id,
        "epoch": member.epoch,
        "topics": sorted(member.topics),
        "expression": member.expression,
        "partitions": [str(partition) for partition in sorted(member.owned)],
        "client_software": None if telemetry is None else telemetry.client_software,
        "slowest_revocation_ms": member.slowest_revocation_ms,
        "joins_1h": joins[member_id],
        "flapping": member_id in flapping,
        "telemetry": None if telemetry is None else figures(telemetry),
    }


def _partition(progress: PartitionProgress) -> dict[str, Any]:
    lag = progress.lag
    return {
        "topic": progress.partition.topic,
        "partition": progress.partition.partition,
        "owner": progress.owner,
        "committed": progress.committed,
        "committed_at": progress.committed_at,
        "end": progress.end,
        "lag": None if lag is None else lag.records,
        "lag_seconds": None if lag is None else round(lag.seconds, 3),
        "method": None if lag is None else lag.method.value,
    }


def slices(group_ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the groups in slices, between which the caller lets others run."""
    waiting: list[str] = []
    for group_id in group_ids:
        waiting.append(group_id)
        if len(waiting) == size:
            yield waiting
            waiting = []
    if waiting:
        yield waiting
