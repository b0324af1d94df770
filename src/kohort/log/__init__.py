"""Partition logs: record batches v2, addressed by offset, in memory, in local files or in PostgreSQL."""

from kohort.log.api import (
    BadDataDirectory,
    DataDirectoryInUse,
    LogStore,
    OffsetAndTime,
    OffsetOutOfRange,
    PartitionLog,
    PartitionStopped,
    Pending,
    StaleLeaderEpoch,
    SyncFailed,
    Topic,
    TopicExists,
    TornTail,
)
from kohort.log.cluster.store import ClusterStore
from kohort.log.descriptors import FileSlice
from kohort.log.files import FileStore
from kohort.log.memory import MemoryStore
from kohort.log.producers import Accepted, Duplicate, Fenced, OutOfOrder, ProducerStates, Verdict
from kohort.log.segment import CorruptBatch

__all__ = [
    "Accepted",
    "BadDataDirectory",
    "ClusterStore",
    "CorruptBatch",
    "DataDirectoryInUse",
    "Duplicate",
    "Fenced",
    "FileSlice",
    "FileStore",
    "LogStore",
    "MemoryStore",
    "OffsetAndTime",
    "OffsetOutOfRange",
    "OutOfOrder",
    "PartitionLog",
    "PartitionStopped",
    "Pending",
    "ProducerStates",
    "StaleLeaderEpoch",
    "SyncFailed",
    "Topic",
    "TopicExists",
    "TornTail",
    "Verdict",
]
