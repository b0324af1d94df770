"""Partition logs: record batches v2, addressed by offset, in memory, in local files or in PostgreSQL."""

from kohort.log.api import (
    BadDataDirectory,
    Compaction,
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
from kohort.log.cluster import ClusterStore
from kohort.log.descriptors import FileSlice
from kohort.log.disk import Disk, FilesNotSynced, Write
from kohort.log.files import FileStore
from kohort.log.kept_configs import AllConfigs
from kohort.log.memory import MemorySnapshot, MemoryStore
from kohort.log.partition import SegmentedLog
from kohort.log.partition_files import MAX_OPEN_FILES, PartitionFiles
from kohort.log.producers import (
    AbortedTransaction,
    Accepted,
    CoordinatorFenced,
    Duplicate,
    Fenced,
    NotTransactional,
    OutOfOrder,
    Producer,
    ProducerStates,
    Verdict,
)
from kohort.log.queue import PendingAppends
from kohort.log.segment import CorruptBatch

__all__ = [
    "MAX_OPEN_FILES",
    "AbortedTransaction",
    "Accepted",
    "AllConfigs",
    "BadDataDirectory",
    "ClusterStore",
    "Compaction",
    "CoordinatorFenced",
    "CorruptBatch",
    "DataDirectoryInUse",
    "Disk",
    "Duplicate",
    "Fenced",
    "FileSlice",
    "FileStore",
    "FilesNotSynced",
    "LogStore",
    "MemorySnapshot",
    "MemoryStore",
    "NotTransactional",
    "OffsetAndTime",
    "OffsetOutOfRange",
    "OutOfOrder",
    "PartitionFiles",
    "PartitionLog",
    "PartitionStopped",
    "Pending",
    "PendingAppends",
    "Producer",
    "ProducerStates",
    "SegmentedLog",
    "StaleLeaderEpoch",
    "SyncFailed",
    "Topic",
    "TopicExists",
    "TornTail",
    "Verdict",
    "Write",
]
