"""Authorization: what the principal of a connection may do, by the ACLs of the cluster.

`guarded` checks each request before its handler. `AccessControl` has the ACLs; handlers ask it only about what a
request does not name, such as the partitions of a fetch session.
"""

from kohort.broker.access.access_control import ACLS, CLUSTER, AccessControl
from kohort.broker.access.guards import guarded

__all__ = ["ACLS", "CLUSTER", "AccessControl", "guarded"]
