"""Check that every broker answers held heartbeats in time (L8)."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.broker import Broker
from kohort.coordinator import HeldHeartbeat
from kohort.model import Millis

_SLACK: Millis = 1_000


class HoldChecks:
    """Check of all brokers of a world, which `look` examines every few seconds."""

    def __init__(self) -> None:
        self._late: list[HeldHeartbeat] = []
        """Heartbeats that were late at the previous check.

        They count only at the next check: a broker that was just resumed may not have answered them
        yet.
        """

    def look(self, brokers: Iterable[Broker]) -> str:
        """Examine the running brokers. Return a description of a heartbeat that is held for too long, or ""."""
        before, self._late = self._late, []
        for broker in brokers:
            now = broker.now()
            for shard in broker.groups:
                if not shard.ready:
                    continue
                self._late += [held for held in shard._machine.held if held.due_at + _SLACK < now]
        for held in self._late:
            if any(held is other for other in before):
                request = held.request
                return f"a heartbeat of {request.member_id} of {request.group_id} was to be answered by {held.due_at}"
        return ""
