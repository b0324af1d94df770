"""The connection that each member of a group last used, and the removal of members whose connection closed.

The kernel closes the connections of a killed process at once. A living member that lost its connection soon uses
another; members that do not reconnect within the grace period are removed. A broker that has just started knows no
connections, and waits until sessions expire.
"""

import logging
from collections import deque
from collections.abc import Callable, Hashable, Set
from functools import partial
from typing import Protocol

from kohort.model import Millis


class MembersConnection(Protocol):
    """A connection of a client."""

    members: dict[str, str]
    """Group IDs of the members that last used it, by member ID."""
    check_members_at: int

    def check_members_later(self) -> None: ...


class Sessions(Protocol):
    """The members of a shard's groups."""

    def has_member(self, group_id: str, member_id: str) -> bool: ...

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a disconnected member may take to reconnect; None if only its session counts."""

    def connection_lost(self, group_id: str, member_id: str) -> None:
        """Remove a member that has not reconnected within its grace period."""


class Groups(Protocol):
    """All shards."""

    def shard(self, group_id: str) -> Sessions:
        """Return the shard of a group."""


class Timers(Protocol):
    """Timers by key."""

    def set(self, key: Hashable, at: Millis | None, fire: Callable[[Millis], None]) -> None:
        """Call `fire(now)` at `at`, replacing the key's earlier timer; `at` None cancels the timer."""


class Dependencies(Protocol):
    """The parts of a broker or a gateway that this module uses."""

    @property
    def groups(self) -> Groups: ...
    @property
    def timers(self) -> Timers: ...

    def now(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

_INSTANT: Millis = 1_000
_MANY_MEMBERS = 10
_MANY_GROUPS = 3
"""Losing `_MANY_MEMBERS` members of `_MANY_GROUPS` groups within `_INSTANT` means a failed gateway or proxy."""

_Member = tuple[str, str]
"""Group ID and member ID."""


class MemberConnections:
    """The connections of the members of all of this broker's groups."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._connections: dict[_Member, MembersConnection] = {}
        self._lost: deque[tuple[Millis, _Member]] = deque()
        """Members lost within the last `_INSTANT`, and when each was lost."""

    def heard(self, connection: MembersConnection, group_id: str, member_id: str) -> None:
        """Record that a member sent a request on a connection other than its last one."""
        if not self._broker.groups.shard(group_id).has_member(group_id, member_id):
            return
        if len(connection.members) >= connection.check_members_at:
            self._forget_departed(connection)
            connection.check_members_later()
        self._connections.pop((connection.members.get(member_id, ""), member_id), None)
        member = group_id, member_id
        before = self._connections.get(member)
        if before is not None:
            before.members.pop(member_id, None)
        self._connections[member] = connection
        connection.members[member_id] = group_id
        self._broker.timers.set((self, member), None, partial(self._is_away, member))

    def lost(self, connection: MembersConnection) -> None:
        """Start the grace period of the members of a closed connection."""
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
            self._keep_sessions()

    @property
    def connected(self) -> Set[tuple[str, str]]:
        """Group ID and member ID of the members whose last connection is open."""
        return self._connections.keys()

    def _forget_departed(self, connection: MembersConnection) -> None:
        for member_id, group_id in list(connection.members.items()):
            if not self._broker.groups.shard(group_id).has_member(group_id, member_id):
                del connection.members[member_id]
                self._connections.pop((group_id, member_id), None)

    def _keep_sessions(self) -> None:
        log.info("many connections closed at once: %d members keep their sessions", len(self._lost))
        for _, member in self._lost:
            self._broker.timers.set((self, member), None, partial(self._is_away, member))

    def _is_away(self, member: _Member, now: Millis) -> None:
        group_id, member_id = member
        self._broker.groups.shard(group_id).connection_lost(group_id, member_id)
