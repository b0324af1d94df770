"""The connection that each member of a group last used, and the removal of members whose connection closed.

The kernel closes the connections of a killed process at once. A living member that lost its connection soon uses
another; members that do not reconnect within the grace period are removed. A broker that has just started knows no
connections, and waits until sessions expire.

The grace period is short if the process is very likely gone: the client waited for an answer, to a heartbeat or a
fetch, on a connection that closed, so it would ask again at once; no other process of its host lost its connection at
that time, as behind a proxy that fails; and nothing that could be the same process has a connection. Processes with one
host and client ID look the same. Clients that are members of no group here, or of one that another broker coordinates,
show by what they waited for that a proxy failed. Processes of Kafka Streams have a UUID in the client IDs of all
threads. Behind a gateway of ours, all clients have its host. It sees theirs, and leaves a group in place of a member,
so its members have the whole grace period here: that of a restart of the gateway.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Set
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from kohort.model import Millis
from kohort.printable import printable


class MembersConnection(Protocol):
    """A connection of a client."""

    members: dict[str, str]
    """Group IDs of the members that last used it, by member ID."""
    check_members_at: int

    @property
    def who(self) -> tuple[str, str]:
        """Host and client ID, which all connections of one client have in common."""

    @property
    def awaited_answer(self) -> bool:
        """Whether the client waited for an answer when it closed, which it would ask for again at once if it lives.

        To a heartbeat or a fetch: a JoinGroup may wait until the client has found its coordinator again.
        """

    def check_members_later(self) -> None: ...


class Sessions(Protocol):
    """The members of a shard's groups."""

    def has_member(self, group_id: str, member_id: str) -> bool: ...

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a disconnected member may take to reconnect; None if only its session counts."""

    def short_grace_ms(self, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
        """Return how long a member may take whose process is very likely gone.

        None if that is no shorter time, or if `who` lost the connection is not the client that joined as the member.
        """

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        """Remove a member that has not reconnected within its grace period."""


class Groups(Protocol):
    """All shards."""

    def shard(self, group_id: str) -> Sessions:
        """Return the shard of a group."""


class Timers(Protocol):
    """Timers by key."""

    def set(self, key: Hashable, at: Millis | None, fire: Callable[[Millis], None]) -> None:
        """Call `fire(now)` at `at`, replacing the key's earlier timer; `at` None cancels the timer."""


class Connections(Protocol):
    """All open connections."""

    def clients(self) -> Iterable[tuple[str, str]]:
        """Return host and client ID of each open connection. The ID is empty before its first request."""


class Dependencies(Protocol):
    """The parts of a broker or a gateway that this module uses."""

    @property
    def groups(self) -> Groups: ...
    @property
    def timers(self) -> Timers: ...

    @property
    def sockets(self) -> Connections: ...

    @property
    def refuses_clients(self) -> bool:
        """Whether no client can connect and send requests."""

    def now(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

GATEWAY_CLIENT_ID = "kohort-gateway"
"""Client ID of the connections with which a gateway visits each broker every half minute."""

_INSTANT: Millis = 1_000
_MANY_MEMBERS = 10
_MANY_GROUPS = 3
"""Losing `_MANY_MEMBERS` members of `_MANY_GROUPS` groups within `_INSTANT` means a failed gateway or proxy."""

_TOGETHER: Millis = 100
"""Time within which a broker sees that the kernel closed all connections of a process."""
_REMEMBERED: Millis = 10_000
"""Time for which closed connections are remembered: longer than `_INSTANT` and a short grace period."""

_GATEWAY_REMEMBERED: Millis = 120_000
"""Time for which a host is known as that of a gateway. Some visits may fail."""

_LATE: Millis = 500
"""Delay of a timer that shows that this process was suspended, and time in which it reads what has arrived."""

_STREAMS_CLIENT = re.compile(
    r"(.*-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?:(?:StreamThread|StateUpdater)-\d+-.+|admin|global-.+)"
)
"""Client ID of a connection of Kafka Streams. The UUID is drawn by the process, or read from its state directory, which
one process uses at a time. If `client.id` is set, there is none."""

_Member = tuple[str, str]
"""Group ID and member ID."""


@dataclass(slots=True, eq=False)
class _Process:
    """A process that lost the connections of its members, one within `_INSTANT` of another."""

    name: str
    """UUID and application of a process of Kafka Streams; else empty, and it has one member."""
    is_alone: bool = True
    """Whether no other process of its host lost a connection within `_INSTANT` that is a member's, or on which an
    answer was awaited."""


@dataclass(slots=True, eq=False)
class _Loss:
    """A member that lost its connection."""

    at: Millis
    member: _Member
    connection: MembersConnection
    process: _Process
    grace: Millis
    """Time that the member has unless its process is very likely gone; 0 if only its session counts."""
    is_refused: bool = False
    """Whether the broker refused clients when the member's time was over. Another begins when it can connect."""

    @property
    def host(self) -> str:
        return self.connection.who[0]


@dataclass(frozen=True, slots=True)
class _Waited:
    """The last connection of a host that closed while its client waited for an answer."""

    process: tuple[str, str]
    at: Millis
    other_at: Millis | None
    """When the last one of another `_likely_process` closed."""

    def other_than(self, process: tuple[str, str]) -> Millis | None:
        """Return when the last one closed that is not of this process."""
        return self.at if process != self.process else self.other_at


class MemberConnections:
    """The connections of the members of all of this broker's groups."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._connections: dict[_Member, MembersConnection] = {}
        self._lost: deque[_Loss] = deque()
        """Members lost within the last `_INSTANT`."""
        self._last_of_host: dict[str, _Loss] = {}
        """The last of them by host."""
        self._awaited: dict[tuple[str, str], Millis] = {}
        """When a connection closed on which an answer was awaited: the last one of each `_likely_process`, in this
        order."""
        self._waited_at: dict[str, _Waited] = {}
        """The last one of each host, in this order."""
        self._gateways: dict[str, Millis] = {}
        """When a visit of a gateway ended: the last one of each host, in this order."""

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
        self._cancel(member)

    def lost(self, connection: MembersConnection) -> None:
        """Start the grace period of the members of a closed connection, if it has any."""
        now = self._broker.now()
        host, client_id = connection.who
        if connection.awaited_answer:
            self._waited(_likely_process(connection.who), now)
        if client_id == GATEWAY_CLIENT_ID:
            _remember(self._gateways, host, now, _GATEWAY_REMEMBERED)
        members, connection.members = connection.members, {}
        for member_id, group_id in members.items():
            member = group_id, member_id
            self._connections.pop(member, None)
            shard = self._broker.groups.shard(group_id)
            if not shard.has_member(group_id, member_id):
                continue
            grace = shard.grace_ms(group_id, member_id)
            loss = _Loss(now, member, connection, _Process(_streams_process(client_id)), grace or 0)
            self._add(loss)  # one that keeps its session, such as a static member, shows that a proxy failed, too
            if grace is not None:
                short = shard.short_grace_ms(group_id, member_id, connection.who)
                self._wait(loss, grace if short is None else short, None if short is None else grace)
        if len(self._lost) >= _MANY_MEMBERS and len({loss.member[0] for loss in self._lost}) >= _MANY_GROUPS:
            self._keep_sessions()

    def _waited(self, process: tuple[str, str], now: Millis) -> None:
        _remember(self._awaited, process, now, _REMEMBERED)
        host, _ = process
        last = self._waited_at.pop(host, None)
        other_at = None if last is None else last.other_than(process)
        self._waited_at[host] = _Waited(process, now, other_at)
        while self._waited_at[oldest := next(iter(self._waited_at))].at < now - _REMEMBERED:
            del self._waited_at[oldest]
        loss = self._last_of_host.get(host)
        if loss is not None and loss.at >= now - _INSTANT and _likely_process(loss.connection.who) != process:
            loss.process.is_alone = False

    def _add(self, loss: _Loss) -> None:
        while self._lost and self._lost[0].at < loss.at - _INSTANT:
            old = self._lost.popleft()
            if self._last_of_host.get(old.host) is old:
                del self._last_of_host[old.host]
        before = self._last_of_host.get(loss.host)
        if before is not None and loss.process.name and before.process.name == loss.process.name:
            loss.process = before.process
        elif before is not None:
            before.process.is_alone = loss.process.is_alone = False
        last = self._waited_at.get(loss.host)
        other_at = None if last is None else last.other_than(_likely_process(loss.connection.who))
        if other_at is not None and other_at >= loss.at - _INSTANT:
            loss.process.is_alone = False
        self._lost.append(loss)
        self._last_of_host[loss.host] = loss

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
        if not any(loss.grace for loss in self._lost):
            return
        log.info("many connections closed at once: %d members keep their sessions", len(self._lost))
        for loss in self._lost:
            self._cancel(loss.member)

    def _wait(self, loss: _Loss, grace: Millis, full_grace: Millis | None) -> None:
        """Look after `grace` whether the member is back. A full grace is what it has unless its process is gone."""
        self._look_at(loss.at + grace, loss, full_grace)

    def _look_at(self, at: Millis, loss: _Loss, full_grace: Millis | None) -> None:
        self._broker.timers.set((self, loss.member), at, partial(self._is_away, loss, full_grace, at))

    def _cancel(self, member: _Member) -> None:
        self._broker.timers.set((self, member), None, _never)

    def _is_away(self, loss: _Loss, full_grace: Millis | None, at: Millis, now: Millis) -> None:
        if now - at >= _LATE:
            # This process stood still, and timers are first when it goes on. What members sent meanwhile is not read.
            self._look_at(now + _LATE, loss, full_grace)
            return
        if self._broker.refuses_clients:
            loss.is_refused = True
            self._look_at(now + _LATE, loss, full_grace)
            return
        if loss.is_refused:
            loss.is_refused = False
            self._look_at(now + loss.grace, loss, None)
            return
        group_id, member_id = loss.member
        if full_grace is not None and (doubt := self._doubt(loss)) is not None:
            who = printable(group_id), printable(member_id)
            log.info("group=%s member=%s has %d ms to connect again, because %s", *who, full_grace, doubt)
            self._wait(loss, full_grace, None)
            return
        self._broker.groups.shard(group_id).connection_lost(group_id, member_id, loss.at)

    def _doubt(self, loss: _Loss) -> str | None:
        """Return why the member's process may not be gone; None if it very likely is. See above."""
        process = _likely_process(loss.connection.who)
        awaited_at = self._awaited.get(process)
        if not loss.process.is_alone:
            return "other clients of its host lost connections at the same time"
        if awaited_at is None or not loss.at - _INSTANT <= awaited_at <= loss.at + _TOGETHER:
            return "it waited for no answer when its connection closed"
        if self._is_behind_gateway(loss):
            return "a gateway has connected from its host"
        if not self._has_vanished(process):
            return "another connection has its host, and its client ID or none yet"
        return None

    def _is_behind_gateway(self, loss: _Loss) -> bool:
        visited_at = self._gateways.get(loss.host)
        return visited_at is not None and visited_at > loss.at - _GATEWAY_REMEMBERED

    def _has_vanished(self, process: tuple[str, str]) -> bool:
        """Return whether no open connection may be one of the process that had a closed one, or of its gateway.

        It may be one of the same `_likely_process`, and one of the host that has not sent a request yet.
        """
        host, _ = process
        may_be = {process, (host, ""), (host, GATEWAY_CLIENT_ID)}
        return not any(
            client[0] == host and _likely_process(client) in may_be for client in self._broker.sockets.clients()
        )


def _likely_process(who: tuple[str, str]) -> tuple[str, str]:
    """Return what clients have in common that may be one process: the host, and the process of Kafka Streams or the
    client ID."""
    host, client_id = who
    return host, _streams_process(client_id) or client_id


def _streams_process(client_id: str) -> str:
    """Return what the client IDs of a process of Kafka Streams begin with; "" for other clients."""
    found = _STREAMS_CLIENT.fullmatch(client_id)
    return "" if found is None else found[1]


_Key = TypeVar("_Key", bound=Hashable)


def _remember(times: dict[_Key, Millis], key: _Key, now: Millis, for_ms: Millis) -> None:
    """Note a time as the last one, and forget those that are older than `for_ms`."""
    times.pop(key, None)
    times[key] = now
    while times[oldest := next(iter(times))] < now - for_ms:
        del times[oldest]


def _never(now: Millis) -> None:
    raise AssertionError("the timer is cancelled")
