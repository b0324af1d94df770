"""The store of a broker, and the broker's view of the cluster that shares it."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kohort.broker.cluster.directory import Dependencies as DirectoryParts
from kohort.broker.cluster.directory import DirectoryCluster
from kohort.broker.logs import Leadership, SingleBroker
from kohort.log import ClusterStore, FileStore, LogStore, MemoryStore
from kohort.log.cluster import SharedStore

# The modules for PostgreSQL are imported only by brokers that use it: psycopg is an extra.


class Dependencies(DirectoryParts, Protocol):
    """The parts of the broker that a view of a cluster uses."""

    fenced: Callable[[], bool] | None

    def end(self, why: str) -> None: ...

    @property
    def stopping(self) -> bool: ...


def open_store(
    data: Path | None, *, postgres: str | None, shared: bool, node_id: int, cluster_id: str | None
) -> LogStore:
    """Open the log in the database `postgres`, else in the directory `data`, else in memory. Raise KohortError."""
    if postgres is not None:
        from kohort.broker.cluster.database import open_database_store

        return open_database_store(postgres, node_id, cluster_id)
    if data is None:
        return MemoryStore(cluster_id=cluster_id)
    if shared:
        return ClusterStore(data, node_id, cluster_id)
    return FileStore(data, cluster_id=cluster_id)


def is_shared(data: Path) -> bool:
    """Return whether the directory is one of several brokers."""
    return (data / "cluster.json").exists()


def new_leadership(broker: Dependencies, store: LogStore) -> Leadership:
    """Return the broker's view of the cluster that shares its store, which it has yet to join."""
    if isinstance(store, ClusterStore):
        return DirectoryCluster(broker, store)
    if isinstance(store, SharedStore):
        from kohort.broker.cluster.database import DatabaseCluster
        from kohort.log.postgres import PostgresStore

        assert isinstance(store, PostgresStore)
        return DatabaseCluster(broker, store)
    return SingleBroker(broker)
