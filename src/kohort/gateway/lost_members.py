"""Members whose connections closed and that did not come back: the gateway leaves their groups in their place.

The kernel closes the connections of a killed process at once, and its session lasts 45 s. The broker's rules apply
(`MemberConnections`). The connection to the coordinator that belonged to the client's stays open meanwhile, because
the request to leave needs the client's authentication.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kohort.broker.groups import MemberConnections
from kohort.gateway.groups import GroupMirror, LeaveRequest
from kohort.model import Millis

log = logging.getLogger("kohort.gateway")

_ANSWER_S = 5.0
"""Time after which the coordinator's answer to a request to leave is not awaited any more."""
_MOST_WAITING = 1_000
"""Members whose upstream connections stay open. Those of more members end with their sessions."""


class MembersLink(Protocol):
    """A connection of a client, and the upstream connection that belongs to it; see `Link`."""

    members: dict[str, str]
    """Group IDs of the members that last used it, by member ID."""
    check_members_at: int
    peer: str

    @property
    def who(self) -> tuple[str, str]: ...
    @property
    def awaited_answer(self) -> bool: ...

    def check_members_later(self) -> None: ...

    @property
    def can_ask(self) -> bool:
        """Whether the upstream connection is open."""

    def leave(self, request: LeaveRequest) -> None:
        """Send a request in place of a member, and take its answer."""

    def close_upstream(self) -> None:
        """Close the upstream connection."""


class LostMembers:
    """The members of one gateway that may be lost. It has what `MemberConnections` needs."""

    def __init__(
        self,
        mirror: GroupMirror,
        grace_ms: Millis,
        leaves: Callable[[str, str, Millis], None],
        clients: Callable[[], Iterable[tuple[str, str]]],
    ) -> None:
        """Call `leaves` with a group ID, a member ID and the age of its connection's end before it leaves.

        `clients` returns host and client ID of each open connection.
        """
        self._loop = asyncio.get_running_loop()
        self._mirror = mirror
        self._grace_ms = grace_ms
        self._leaves = leaves
        self.clients = clients
        self._handles: dict[Any, asyncio.TimerHandle] = {}
        self._connections = MemberConnections(self)
        self._links: dict[tuple[str, str], MembersLink] = {}
        """Links of lost members, whose upstream connections are open."""
        self._losing: MembersLink | None = None
        self._returning: set[tuple[str, str]] = set()
        """Lost members in whose name a heartbeat has arrived, which the coordinator has not answered yet."""

    def __len__(self) -> int:
        return len(self._links)

    @property
    def is_on(self) -> bool:
        """Whether members may be removed."""
        return self._grace_ms != 0

    @property
    def groups(self) -> "LostMembers":
        return self

    @property
    def timers(self) -> "LostMembers":
        return self

    @property
    def sockets(self) -> "LostMembers":
        return self

    @property
    def refuses_clients(self) -> bool:
        """Never: a gateway that stops ends within half a second."""
        return False

    def now(self) -> Millis:
        return round(self._loop.time() * 1000)

    def set(self, key: Any, at: Millis | None, fire: Callable[[Millis], None]) -> None:
        """Call `fire(now)` at `at`, replacing the key's earlier timer; `at` None cancels the timer."""
        before = self._handles.pop(key, None)
        if before is not None:
            before.cancel()
        if at is None:
            _, (group_id, member_id) = key
            self.done(group_id, member_id)
            return

        def due() -> None:
            self._handles.pop(key, None)
            fire(self.now())

        self._handles[key] = self._loop.call_at(at / 1000, due)

    def shard(self, group_id: str) -> "LostMembers":
        """Return the members of a group."""
        return self

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Return whether the coordinator knows the member, as far as its answers tell."""
        return self._mirror.has_member(group_id, member_id)

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a member may take to reconnect; None if it is not removed then."""
        if self._losing is None or len(self._links) >= _MOST_WAITING:
            return None
        grace = self._mirror.grace_ms(group_id, member_id, self._grace_ms)
        if grace is not None:
            self._links[group_id, member_id] = self._losing
        return grace

    def arrived(self, group_id: str, member_id: str) -> None:
        """Note a heartbeat in the name of a member: it may have come back, and only its session counts then.

        If the coordinator cannot be reached, its answer may come after the grace period.
        """
        if (group_id, member_id) in self._links:
            self._returning.add((group_id, member_id))

    def heard(self, link: MembersLink, group_id: str, member_id: str) -> None:
        """Note that a member sent a request on a connection."""
        if member_id and link.members.get(member_id) != group_id:
            self._connections.heard(link, group_id, member_id)

    def lost(self, link: MembersLink) -> bool:
        """Begin the grace period of the members of a closed connection. Return whether its upstream one is needed.

        A connection without members shows, too, whether its process is gone.
        """
        self._losing = link if link.can_ask else None
        try:
            self._connections.lost(link)
        finally:
            self._losing = None
        return link in self._links.values()

    def short_grace_ms(self, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
        """Return how long a member may take to reconnect if its process is very likely gone; None if no shorter time.

        - `who`: Host and client ID of the connection that closed.
        """
        return self._mirror.short_grace_ms(group_id, member_id, self._grace_ms, who)

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        """Leave the group in place of a member that has not come back."""
        link = self._links.get((group_id, member_id))
        if link is None:
            return
        if (group_id, member_id) in self._returning:
            self.done(group_id, member_id)
            return
        request = self._mirror.lost(group_id, member_id)
        if request is not None and link.can_ask:
            log.info("group=%s member=%s peer=%s leaves: its connection closed", group_id, member_id, link.peer)
            self._leaves(group_id, member_id, self.now() - closed_at)
            link.leave(request)
            self._loop.call_later(_ANSWER_S, self.done, group_id, member_id)
        else:
            self.done(group_id, member_id)

    def done(self, group_id: str, member_id: str) -> None:
        """Close the upstream connection of a lost member that needs it no more."""
        link = self._links.pop((group_id, member_id), None)
        self._returning.discard((group_id, member_id))
        if link is not None and link not in self._links.values():
            link.close_upstream()

    def close(self) -> None:
        """Keep all members, because the gateway stops."""
        for handle in self._handles.values():
            handle.cancel()
        self._grace_ms = 0
        links, self._links = self._links, {}
        for link in links.values():
            link.close_upstream()
