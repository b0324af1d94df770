"""Check that every broker answers held heartbeats in time (L8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
        """Examine the running brokers.

        Return a description of a heartbeat that is held for too long, or will never be answered, or "".
        """
        before, self._late = self._late, []
        for broker in brokers:
            now = broker.now()
            for shard in broker.groups:
                if not shard.ready:
                    continue
                machine: Any = shard._machine
                tokens = {held.token for held in machine.held}
                for held in machine.holding:
                    if held.token not in tokens:
                        return f"{_named(held)} is neither held nor answered"
                    if held.due_at + _SLACK < now:
                        self._late.append(held)
        for held in self._late:
            if any(held is other for other in before):
                return f"{_named(held)} was to be answered by {held.due_at}"
        return ""


def _named(held: HeldHeartbeat) -> str:
    return f"a heartbeat of {held.request.member_id} of {held.request.group_id}"
