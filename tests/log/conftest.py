"""Every test that takes `store` runs over memory, over files and over PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.log import FileStore, LogStore, MemoryStore
from kohort.log.cluster import Node
from tests.cluster.postgres import PostgresServer, postgres

__all__ = ["postgres"]


def _only_broker(dsn: str, scratch: Path) -> LogStore:
    """The store of the only broker of a cluster."""
    from kohort.log.postgres import ClusterDatabase, PostgresStore

    home = ClusterDatabase(dsn, 1)
    home.join(Node(1, "localhost", 9092), 600_000)
    scratch.mkdir()
    return PostgresStore(home, scratch)


@pytest.fixture(params=["memory", "files", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    match request.param:
        case "memory":
            opened: LogStore = MemoryStore()
        case "files":
            opened = FileStore(tmp_path / "data")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            opened = _only_broker(server.fresh_database(), tmp_path / "scratch")
    yield opened
    opened.close()
