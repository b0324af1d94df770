"""Log of a cluster in PostgreSQL, for brokers on several hosts. Requires the extra `postgres`."""

from kohort.log.cluster.unsure import DatabaseTrouble, Fenced, ResultUnknown
from kohort.log.postgres.cluster_state import ClusterDatabase, LeaseRenewal
from kohort.log.postgres.session import BadDatabase
from kohort.log.postgres.store import PostgresStore

__all__ = [
    "BadDatabase",
    "ClusterDatabase",
    "DatabaseTrouble",
    "Fenced",
    "LeaseRenewal",
    "PostgresStore",
    "ResultUnknown",
]
