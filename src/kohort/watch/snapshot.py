"""Snapshot of all groups as a JSON document. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from json import loads
from typing import Any

from kohort.model import Millis, TopicPartition
from kohort.watch.group import WatchedGroup
from kohort.watch.lag import EndOffsets, Lag
from kohort.watch.reader import ReadCounts
from kohort.watch.watcher import Watcher


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress of a group in one partition."""

    partition: TopicPartition
    owner: str | None
    """Member ID of its owner, if it has one."""
    committed: int | None
    committed_at: Millis | None
    """Time of the last commit; None if it is not in the part of the log that was read."""
    end: int | None
    lag: Lag | None
    """None if nothing is committed or the end is unknown."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of all groups at one time."""

    at: Millis
    watcher: Watcher
    ends: Mapping[TopicPartition, EndOffsets]
    history_from: Millis | None
    """Start of the history in which rebalances were looked for; None without a history."""
    counts: ReadCounts
    problems: Collection[str] = field(default=())
    """What could not be read, each as a sentence."""

    @property
    def groups(self) -> list[WatchedGroup]:
        """Groups in the order of their IDs."""
        return [group for _, group in sorted(self.watcher.groups.items())]

    def progress(self, group: WatchedGroup) -> list[PartitionProgress]:
        """Return the group's progress in each partition that has an owner or a committed offset."""
        owners = group.owners
        return [
            self._progress(group, partition, owners.get(partition))
            for partition in sorted(owners.keys() | group.commits.keys())
        ]

    def _progress(self, group: WatchedGroup, partition: TopicPartition, owner: str | None) -> PartitionProgress:
        commit, ends = group.commits.get(partition), self.ends.get(partition)
        end = None if ends is None else ends.end
        if commit is None:
            return PartitionProgress(partition, owner, None, None, end, None)
        lag = None if ends is None else ends.lag(commit.offset, self.at)
        return PartitionProgress(partition, owner, commit.offset, commit.at, end, lag)

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot for `json.dumps`. docs/watch.md describes each field."""
        return {
            "at": self.at,
            "history_from": self.history_from,
            "groups": [self._group(group) for group in self.groups],
            "log": asdict(self.counts),
            "problems": list(self.problems),
        }

    def _group(self, group: WatchedGroup) -> dict[str, Any]:
        progress = self.progress(group)
        lags = [each.lag for each in progress if each.lag is not None]
        return {
            "group": group.group_id,
            "type": group.shown_type,
            "state": group.state,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "epoch": group.epoch,
            "target_epoch": group.target_epoch,
            "lag": sum(lag.records for lag in lags) if lags else None,
            "lag_seconds": max((lag.seconds for lag in lags), default=None),
            "members": [
                {
                    "member_id": member.facts.member_id,
                    "client_id": member.facts.client_id,
                    "client_host": member.facts.client_host,
                    "instance_id": member.facts.instance_id,
                    "epoch": member.epoch,
                    "topics": sorted(member.topics),
                    "expression": member.expression,
                    "partitions": [str(partition) for partition in sorted(member.owned)],
                }
                for _, member in sorted(group.members.items())
            ],
            "partitions": [_partition(each) for each in progress],
            "rebalances": [loads(record.to_json()) for record in group.rebalances],
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
