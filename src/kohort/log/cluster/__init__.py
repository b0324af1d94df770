"""Logs of several brokers that share one data directory, and the image that assigns each partition a leader."""

from kohort.log.cluster.directory import BrokerState, ClusterDirectory, read_image
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.followed import FollowerLog
from kohort.log.cluster.image import NOBODY, OFFSETS_TOPIC, ClusterImage, Leader, Node, PartitionId, Transition
from kohort.log.cluster.locks import Busy, FileLock, is_held
from kohort.log.cluster.marks import PublishedOffsets, PublishedOffsetsWriter
from kohort.log.cluster.moves import called_off, elected, reassigned, told_replicas
from kohort.log.cluster.processes import ProcessIdentity, end
from kohort.log.cluster.replicas import ONE_REPLICA, Placement, Replicas, TooFewBrokers
from kohort.log.cluster.store import ClusterStore, SharedStore
from kohort.log.cluster.unsure import DatabaseTrouble, Fenced, NoTimePartition, ResultUnknown, Writer

__all__ = [
    "NOBODY",
    "OFFSETS_TOPIC",
    "ONE_REPLICA",
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
    "called_off",
    "decode_image",
    "elected",
    "encode_image",
    "end",
    "is_held",
    "read_image",
    "reassigned",
    "told_replicas",
]
