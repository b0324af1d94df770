"""The store of a stopped broker, for commands that prepare it: the first user must exist before the broker starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kohort.broker.cluster import is_shared, open_store
from kohort.broker.security import ScramCredentials

_NO_BROKER = 2**31 - 1
"""Node ID that no broker has, under which a store of several brokers is opened."""


@contextmanager
def stored_credentials(data: Path | None, postgres: str | None) -> Iterator[ScramCredentials]:
    """Open the credentials in the directory `data` or in a database. Raise KohortError if a broker uses the directory.

    A directory or database of several brokers may be in use by them; they follow the change.
    """
    shared = data is not None and is_shared(data)
    store = open_store(data, postgres=postgres, shared=shared, node_id=_NO_BROKER, cluster_id=None)
    try:
        yield ScramCredentials(store)
    finally:
        store.close()
