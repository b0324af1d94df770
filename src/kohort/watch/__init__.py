"""Watch the groups of any cluster: their state, their lag, and every rebalance, from `__consumer_offsets`.

`LogReader` reads records as changes, `Watcher` keeps the groups and makes the recorder's records of
their rebalances, and `EndOffsets` turns end offsets over time into lag in seconds. All of them are
pure. `Watching` feeds them from a running cluster, through `Live`, which every sink reads.
"""

from kohort.watch.changes import Change
from kohort.watch.commits import Commit
from kohort.watch.group import GroupFound, WatchedGroup, WatchedMember
from kohort.watch.lag import EndOffsets, EndPoint, Lag, LagMethod
from kohort.watch.live import (
    EndsSampled,
    GroupsChanged,
    Live,
    LiveEvent,
    ProblemFound,
    ProblemSolved,
    Rebalanced,
    Sink,
    SourceChanged,
    SourceKind,
    SourceState,
)
from kohort.watch.reader import LogReader, ReadCounts, assigned_topics
from kohort.watch.snapshot import PartitionProgress, Snapshot
from kohort.watch.source import OFFSETS_TOPIC, Watching
from kohort.watch.telemetry import IDLE_RATIO, LAST_POLL
from kohort.watch.trace_endpoint import traces_endpoint
from kohort.watch.watcher import Watcher
from kohort.watch.waterfall import MemberSteps, Step, StepName, waterfall

__all__ = [
    "IDLE_RATIO",
    "LAST_POLL",
    "OFFSETS_TOPIC",
    "Change",
    "Commit",
    "EndOffsets",
    "EndPoint",
    "EndsSampled",
    "GroupFound",
    "GroupsChanged",
    "Lag",
    "LagMethod",
    "Live",
    "LiveEvent",
    "LogReader",
    "MemberSteps",
    "PartitionProgress",
    "ProblemFound",
    "ProblemSolved",
    "ReadCounts",
    "Rebalanced",
    "Sink",
    "Snapshot",
    "SourceChanged",
    "SourceKind",
    "SourceState",
    "Step",
    "StepName",
    "WatchedGroup",
    "WatchedMember",
    "Watcher",
    "Watching",
    "assigned_topics",
    "traces_endpoint",
    "waterfall",
]
