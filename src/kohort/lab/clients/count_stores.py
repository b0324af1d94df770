"""Choice of the store of a member's counts."""

from __future__ import annotations

from pathlib import Path

from kohort.lab.clients.counts import CountStore, MemoryCountStore
from kohort.lab.member_settings import MemberSettings


def new_count_store(settings: MemberSettings) -> CountStore:
    """Return the store that the settings specify: RocksDB in its directory, or memory."""
    if not settings.state:
        return MemoryCountStore()
    from kohort.lab.clients.rocks import RocksCountStore

    return RocksCountStore(Path(settings.state))
