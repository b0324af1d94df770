"""Several brokers over one data directory: who leads what, the file that says so, and the logs of each."""

from kohort.log.cluster.directory import Beat, ClusterDirectory
from kohort.log.cluster.image import NOBODY, ClusterImage, Leader, Node, PartitionId
from kohort.log.cluster.replicas import ONE_REPLICA, Placement, Replicas, TooFewBrokers

__all__ = [
    "NOBODY",
    "ONE_REPLICA",
    "Beat",
    "ClusterDirectory",
    "ClusterImage",
    "Leader",
    "Node",
    "PartitionId",
    "Placement",
    "Replicas",
    "TooFewBrokers",
]
