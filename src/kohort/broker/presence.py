"""On which connection each member of a group was last heard of, and what follows when it closes.

The kernel closes a killed process's connections at once. A living member that lost its connection is soon heard of on
another; who is not within its grace is removed. A broker that starts knows no connections, and waits for sessions.
"""

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.connection import FEW_MEMBERS, Connection
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")

_INSTANT: Millis = 1_000
_MANY_MEMBERS = 10
_MANY_GROUPS = 3
"""So many members of so many groups are lost in one instant when a gateway or a proxy goes, not they."""

_Member = tuple[str, str]
"""Group id and member id."""


class Presence:
    """Of all members of this broker's groups."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._connections: dict[_Member, Connection] = {}
        self._lost: deque[tuple[Millis, _Member]] = deque()
        """Who was lost within the last instant, and when."""

    def heard(self, connection: Connection, group_id: str, member_id: str) -> None:
        """A member sent something on a connection on which it was not last heard of."""
        if self._broker.groups.shard(group_id).grace_ms(group_id, member_id) is None:
            return
        if len(connection.members) >= connection.check_members_at:
            self._forget_who_left(connection)
            # Only when their number has doubled: a look at all for each new one is quadratic.
            connection.check_members_at = max(FEW_MEMBERS, 2 * len(connection.members))
        self._connections.pop((connection.members.get(member_id, ""), member_id), None)
        member = group_id, member_id
        before = self._connections.get(member)
        if before is not None:
            before.members.pop(member_id, None)
        self._connections[member] = connection
        connection.members[member_id] = group_id
        self._broker.timers.set((self, member), None, partial(self._is_away, member))

    def lost(self, connection: Connection) -> None:
        """A connection is closed: its members have their grace to come back."""
        now = self._broker.now()
        members, connection.members = connection.members, {}
        for member_id, group_id in members.items():
            member = group_id, member_id
            self._connections.pop(member, None)
            grace = self._broker.groups.shard(group_id).grace_ms(group_id, member_id)
            if grace is not None:
                self._lost.append((now, member))
                self._broker.timers.set((self, member), now + grace, partial(self._is_away, member))
        while self._lost and self._lost[0][0] < now - _INSTANT:
            self._lost.popleft()
        if len(self._lost) >= _MANY_MEMBERS and len({group_id for _, (group_id, _) in self._lost}) >= _MANY_GROUPS:
            self._forgive()

    def _forget_who_left(self, connection: Connection) -> None:
        for member_id, group_id in list(connection.members.items()):
            if self._broker.groups.shard(group_id).grace_ms(group_id, member_id) is None:
                del connection.members[member_id]
                self._connections.pop((group_id, member_id), None)

    def _forgive(self) -> None:
        log.info("many connections closed at once: %d members keep their sessions", len(self._lost))
        for _, member in self._lost:
            self._broker.timers.set((self, member), None, partial(self._is_away, member))

    def _is_away(self, member: _Member, now: Millis) -> None:
        group_id, member_id = member
        self._broker.groups.shard(group_id).connection_lost(group_id, member_id)
