"""A cluster's log in PostgreSQL: for brokers on several hosts. It needs the extra `postgres`."""

from kohort.log.cluster.unsure import ConnectionBroke, DatabaseTrouble, Fenced
from kohort.log.postgres.home import Beat, ClusterDatabase
from kohort.log.postgres.session import BadDatabase
from kohort.log.postgres.store import PostgresStore

__all__ = ["BadDatabase", "Beat", "ClusterDatabase", "ConnectionBroke", "DatabaseTrouble", "Fenced", "PostgresStore"]
