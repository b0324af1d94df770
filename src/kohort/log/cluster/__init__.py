"""Logs of several brokers that share one data directory, and the image that assigns each partition a leader."""

from kohort.log.cluster.database_errors import DatabaseTrouble, Fenced, NoTimePartition, ResultUnknown, Writer
from kohort.log.cluster.directory import BrokerState, ClusterDirectory, read_image
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.follower_log import FollowerLog
from kohort.log.cluster.image import (
    NOBODY,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    ClusterImage,
    Leader,
    Node,
    PartitionId,
    Transition,
)
from kohort.log.cluster.leadership_changes import (
    replicas_for_clients,
    with_preferred_leaders,
    with_reassignments,
    without_reassignments,
)
from kohort.log.cluster.locks import Busy, FileLock, is_held
from kohort.log.cluster.processes import ProcessIdentity, kill_process
from kohort.log.cluster.published_offsets import PublishedOffsets, PublishedOffsetsWriter
from kohort.log.cluster.replicas import ONE_REPLICA, Placement, Replicas, TooFewBrokers
from kohort.log.cluster.store import ClusterStore, SharedStore

__all__ = [
    "NOBODY",
    "OFFSETS_TOPIC",
    "ONE_REPLICA",
    "TRANSACTIONS_TOPIC",
    "BrokerState",
    "Busy",
    "ClusterDirectory",
    "ClusterImage",
    "ClusterStore",
    "DatabaseTrouble",
    "Fenced",
    "FileLock",
    "FollowerLog",
    "Leader",
    "NoTimePartition",
    "Node",
    "PartitionId",
    "Placement",
    "ProcessIdentity",
    "PublishedOffsets",
    "PublishedOffsetsWriter",
    "Replicas",
    "ResultUnknown",
    "SharedStore",
    "TooFewBrokers",
    "Transition",
    "Writer",
    "decode_image",
    "encode_image",
    "is_held",
    "kill_process",
    "read_image",
    "replicas_for_clients",
    "with_preferred_leaders",
    "with_reassignments",
    "without_reassignments",
]
