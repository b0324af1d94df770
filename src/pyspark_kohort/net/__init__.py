"""Blocking connections to a cluster, for the driver and the executors."""

from pyspark_kohort.net.cluster import BlockingCluster, cluster_of_worker
from pyspark_kohort.net.connection import BlockingConnection

__all__ = ["BlockingCluster", "BlockingConnection", "cluster_of_worker"]
