"""Several brokers that share one store: leadership, leases, changes that other brokers make, and their processes.

`open_store` and `new_leadership` are all that a broker needs. `BrokerProcesses` runs a whole cluster.
"""

from kohort.broker.cluster.directory import DirectoryCluster
from kohort.broker.cluster.lease import Lease
from kohort.broker.cluster.processes import BrokerProcesses, ClusterOptions
from kohort.broker.cluster.stores import is_shared, new_leadership, open_store

__all__ = [
    "BrokerProcesses",
    "ClusterOptions",
    "DirectoryCluster",
    "Lease",
    "is_shared",
    "new_leadership",
    "open_store",
]
