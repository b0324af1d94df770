"""What all rules share: clients, groups and topics as observed so far, and the violations that were found."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kohort.model import Millis
from kohort.testing.events import AnswerLost, AnswerSent, Event, RequestReceived
from kohort.testing.invariants.limits import Limits
from kohort.testing.invariants.state import Asked, Client, Connection, Former, Group, Member, Partitions, Recent, Topics
from kohort.testing.invariants.violation import Fault, Invariant, Violation

ANY_GROUP = "*"
_GROUPS = 10_000
_REPORTED = 1_000


class Scene:
    """State of all checks. `number` counts the events, and `now` is the time of the present one."""

    def __init__(self, limits: Limits, allowed: Mapping[Invariant, Collection[str]]) -> None:
        self.limits = limits
        self.allowed: defaultdict[Invariant, set[str]] = defaultdict(set)
        for invariant, groups in allowed.items():
            self.allowed[invariant].update(groups)
        self.number = 0
        self.now: Millis = 0
        self.acted_at: Millis = -1
        """Time of the last action of the kit."""
        self.acted = 0
        """Number of the last event that was an action of the kit."""
        self.connections: dict[int, Connection] = {}
        self.clients: dict[str, Client] = {}
        self.groups: Recent[str, Group] = Recent(_GROUPS)
        self.topics = Topics()
        self.found: list[Violation] = []
        self._reported: Recent[tuple[Invariant, str, str], None] = Recent(_REPORTED)

    def group(self, group_id: str, broker: int | None = None) -> Group:
        """Return a group. If another broker coordinates it now, what only the last coordinator knew is forgotten."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        elif len(self.groups) > _GROUPS // 2:
            self.groups[group_id] = group  # keep the recently used ones
        group.seen = self.number
        if broker is not None and group.broker != broker:
            if group.broker >= 0:
                group.coordinator_changed()
            group.broker = broker
        return group

    def connection(self, event: RequestReceived) -> Connection:
        """Return the connection of a request, with its client."""
        connection = self.connections.get(event.connection)
        if connection is None:
            connection = Connection(event.connection, "", is_whole=False, since=self.number)
            self.connections[event.connection] = connection
        client = connection.client
        if client is None or client.client_id != event.client_id:
            client = self.clients.get(event.client_id)
            if client is None:
                client = self.clients[event.client_id] = Client(event.client_id)
            client.connections.add(event.connection)
            client.is_whole &= connection.is_whole
            if connection.client is not None:  # a connection that several clients share
                connection.client.is_whole = client.is_whole = False
            connection.client = client
        return connection

    def closed(self, number: int) -> None:
        """Forget a connection."""
        connection = self.connections.pop(number, None)
        if connection is not None and connection.client is not None:
            connection.client.connections.discard(number)
            self.forget_client(connection.client)

    def forget_client(self, client: Client) -> None:
        """Forget a client without connections and members."""
        if not client.connections and not client.members:
            self.clients.pop(client.client_id, None)

    def new_member(
        self, group: Group, asked: Asked, member_id: str, instance_id: str | None, since: Event, *, is_classic: bool
    ) -> Member:
        """Return the member with this ID, which is new if no client had it."""
        event = asked.event
        client = self.connection(event).client
        assert client is not None
        member = group.members.get(member_id)
        if member is not None and member.client is not client:
            self.remove(group, member_id, since)
            member = None
        if member is None:
            member = Member(member_id, group.group_id, client, event.connection, instance_id, is_classic, since)
            group.members[member_id] = member
            client.members.add((group.group_id, member_id))
        group.gone.pop(member_id, None)
        group.connections[member_id] = event.connection
        group.is_changed = True
        client.former = None
        member.is_classic, member.is_free = is_classic, False
        return member

    def remove(self, group: Group, member_id: str, event: Event, *, left: bool = False) -> Member | None:
        """Record that a member is gone; `left` tells whether it asked to."""
        group.gone[member_id] = event
        group.is_changed = True
        member = group.members.pop(member_id, None)
        if member is not None:
            client = member.client
            client.members.discard((group.group_id, member_id))
            if not left and not client.members:
                partitions = member.assigned | member.giving_up
                client.former = Former(group.group_id, member_id, partitions, member.rebalance_ms or 0)
            self.forget_client(client)
        return member

    def heard(self, group: Group, asked: Asked, member_id: str) -> Member | None:
        """Record a request of a member; return it, or None if it is not a living member of that client."""
        event = asked.event
        member = group.living(event, member_id)
        if member is not None:
            member.heard, member.heard_at, member.broker = event, event.at, event.broker
            member.connection = event.connection
            member.abandoned = None
        return member

    def assigned(self, group: Group, member: Member, partitions: Partitions, answer: AnswerSent | AnswerLost) -> None:
        """Record the new assignment of a member."""
        is_alone = member.client.members == {(group.group_id, member.member_id)}
        for place in partitions - member.assigned:
            last = group.owners.get(place)
            if last is not None and last != member.member_id and is_alone:
                # What it read before another member had the partition is no longer its own.
                member.client.reach.pop(place, None)
        for place in partitions:
            group.owners[place] = member.member_id
            member.given_up.pop(place, None)
            member.ever.add(place)
        for place, given_up in member.given_up.items():
            member.given_up[place] = replace(given_up, since=answer)
        member.assigned = partitions
        member.is_assigned = isinstance(answer, AnswerSent)
        group.is_changed = True

    def forget_group(self, group_id: str) -> None:
        """Forget a group that was deleted, or whose history starts anew."""
        for key in [key for key in self._reported if key[1] == group_id]:
            del self._reported[key]
        group = self.groups.pop(group_id, None)
        if group is not None:
            for member_id in list(group.members):
                member = group.members.pop(member_id)
                member.client.members.discard((group_id, member_id))
                self.forget_client(member.client)

    def forget_topic(self, name: str) -> None:
        """Forget the offsets of a topic that was deleted or made anew."""
        self.topics.doubtful[name] = self.number
        for group in self.groups.values():
            for place in [place for place in group.committed if place.topic == name]:
                del group.committed[place]
            for place in [place for place in group.dark if place.topic == name]:
                del group.dark[place]
            group.is_changed = True
        for client in self.clients.values():
            for place in [place for place in client.reach if place.topic == name]:
                del client.reach[place]
                client.listed.pop(place, None)

    def report(
        self,
        invariant: Invariant,
        fault: Fault,
        group: str,
        client_id: str,
        what: str,
        why: str,
        events: Iterable[Event | None],
        *,
        key: str = "",
    ) -> None:
        """Report a violation, once for each group and `key`."""
        if not self.allowed[invariant].isdisjoint((group, ANY_GROUP)):
            return
        reported = invariant, group, key
        if reported in self._reported:
            return
        self._reported[reported] = None
        proof = tuple(event for event in dict.fromkeys(map(_Same, events)) if event.event is not None)
        self.found.append(
            Violation(invariant, fault, group, client_id, what, why, tuple(same.event for same in proof if same.event))
        )


class _Same:
    """An event by identity: messages have no hashes."""

    __slots__ = ("event",)

    def __init__(self, event: Event | None) -> None:
        self.event = event

    def __hash__(self) -> int:
        return id(self.event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.event is other.event
