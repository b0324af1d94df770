"""Clients whose records do not pass through the gateway (--groups-only): which may, and whose members leave it.

They get the gateway's address for coordinators of groups, and the brokers' own addresses for all else. When such a
client looks for its coordinator again, it asks a broker. Then its members go on without the gateway.
"""

import asyncio
import logging
from collections import Counter

from kohort.coordinator import ClientKind
from kohort.gateway.groups import GroupMirror
from kohort.gateway.lost_members import LostMembers, MembersLink
from kohort.model import Millis

log = logging.getLogger("kohort.gateway")

_MAY_PASS = frozenset({ClientKind.JAVA, ClientKind.KOHORT})
"""Clients that connect to a coordinator at the address in the response to FindCoordinator.

librdkafka connects to the address of the same node ID in its metadata. kafka-python, aiokafka, franz-go and kafkajs
ask a broker of their metadata for the coordinator.
"""
_RETURN_MS: Millis = 10_000
"""Time within which a member comes back to the gateway, if it does."""
_REPORT_S = 1.0
_MOST_NAMES = 100


class PastGateway:
    """Decides which clients get the brokers' addresses."""

    def __init__(self) -> None:
        self._others: set[str] = set()

    def admits(self, kind: ClientKind, software: str) -> bool:
        """Return whether a client gets the brokers' addresses. Logs the name of each other software once."""
        if kind in _MAY_PASS:
            return True
        name = software or "unknown"
        if name not in self._others and len(self._others) < _MOST_NAMES:
            self._others.add(name)
            log.warning(
                "software=%r cannot send only its group requests through the gateway: its records pass through it, too",
                name,
            )
        return False


class GoneMembers(LostMembers):
    """Counts the members whose connections closed, and that did not come back. Removes none: they may live."""

    def __init__(self, mirror: GroupMirror) -> None:
        super().__init__(mirror, 0, lambda *_: None, tuple)
        self.count = 0
        """Number of these members so far."""
        self._unreported: Counter[str] = Counter()
        """Their number in each group since the last report."""
        self._report: asyncio.TimerHandle | None = None
        self._is_closed = False

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a member may take to come back; None if that is of no interest."""
        return None if self._is_closed or not self.has_member(group_id, member_id) else _RETURN_MS

    def lost(self, link: MembersLink) -> bool:
        """Wait for the members of a closed connection. Return False: its upstream one is not needed."""
        if link.members:
            self._connections.lost(link)
        return False

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        """Count a member that has not come back."""
        self.count += 1
        self._unreported[group_id] += 1
        if self._report is None:
            self._report = self._loop.call_later(_REPORT_S, self._log)

    def _log(self) -> None:
        self._report = None
        for group_id, count in self._unreported.items():
            log.warning(
                "group=%s members=%d did not come back after their connections closed: they have ended, or use the"
                " brokers without the gateway until they are started again",
                group_id,
                count,
            )
        self._unreported.clear()

    def close(self) -> None:
        """Count no more members, because the gateway stops."""
        self._is_closed = True
        if self._report is not None:
            self._report.cancel()
            self._log()
        super().close()
