"""Several brokers over one data directory: who leads what, the file that says so, and the logs of each."""

from kohort.log.cluster.directory import Beat, ClusterDirectory
from kohort.log.cluster.image import NOBODY, ClusterImage, Leader, Node, PartitionId

__all__ = ["NOBODY", "Beat", "ClusterDirectory", "ClusterImage", "Leader", "Node", "PartitionId"]
