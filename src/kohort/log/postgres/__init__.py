"""Log of a cluster in PostgreSQL, for brokers on several hosts. Requires the extra `postgres`."""

from kohort.log.cluster import DatabaseTrouble, Fenced, ResultUnknown
from kohort.log.postgres.cluster_state import ClusterDatabase, LeaseRenewal, read_image
from kohort.log.postgres.session import BadDatabase, Connection, Session
from kohort.log.postgres.store import PostgresStore

__all__ = [
    "BadDatabase",
    "ClusterDatabase",
    "Connection",
    "DatabaseTrouble",
    "Fenced",
    "LeaseRenewal",
    "PostgresStore",
    "ResultUnknown",
    "Session",
    "read_image",
]
