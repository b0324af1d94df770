"""Logs of several brokers that share one data directory, and the image that assigns each partition a leader."""

from kohort.log.cluster.directory import BrokerState, ClusterDirectory
from kohort.log.cluster.image import NOBODY, ClusterImage, Leader, Node, PartitionId
from kohort.log.cluster.replicas import ONE_REPLICA, Placement, Replicas, TooFewBrokers

__all__ = [
    "NOBODY",
    "ONE_REPLICA",
    "BrokerState",
    "ClusterDirectory",
    "ClusterImage",
    "Leader",
    "Node",
    "PartitionId",
    "Placement",
    "Replicas",
    "TooFewBrokers",
]
