"""Watch the groups of any cluster: their state, their lag, and every rebalance, from `__consumer_offsets`.

`LogReader` reads records as changes, `Watcher` keeps the groups and makes the recorder's records of
their rebalances, and `EndOffsets` turns end offsets over time into lag in seconds. All of them are
pure; `ClusterSource` feeds them from a running cluster.
"""

from kohort.watch.changes import Change
from kohort.watch.group import Commit, GroupFound, WatchedGroup, WatchedMember
from kohort.watch.lag import EndOffsets, EndPoint, Lag, LagMethod
from kohort.watch.reader import LogReader, ReadCounts, unnamed_topics
from kohort.watch.snapshot import PartitionProgress, Snapshot
from kohort.watch.source import OFFSETS_TOPIC, ClusterSource
from kohort.watch.watcher import Watcher

__all__ = [
    "OFFSETS_TOPIC",
    "Change",
    "ClusterSource",
    "Commit",
    "EndOffsets",
    "EndPoint",
    "GroupFound",
    "Lag",
    "LagMethod",
    "LogReader",
    "PartitionProgress",
    "ReadCounts",
    "Snapshot",
    "WatchedGroup",
    "WatchedMember",
    "Watcher",
    "unnamed_topics",
]
