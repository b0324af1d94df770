"""Choice of the store of a member's counts."""

from __future__ import annotations

from pathlib import Path

from kohort.lab.clients.counts import CountStore, MemoryCountStore
from kohort.lab.order import Order


def new_count_store(order: Order) -> CountStore:
    """Return the store that the order specifies: RocksDB in its directory, or memory."""
    if not order.state:
        return MemoryCountStore()
    from kohort.lab.clients.rocks import RocksCountStore

    return RocksCountStore(Path(order.state))
