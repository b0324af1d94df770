"""Rules of what coordinators report of groups, and of time: causes of rebalances, expired members, unassigned
partitions.

After an action of the kit (a fault, an advanced clock) nobody is accused of a delay that it can have caused.
"""

from collections import deque
from collections.abc import Callable
from types import UnionType
from typing import Any

from kohort.group_events import (
    Cause,
    GroupEpochBumped,
    MemberCame,
    MemberGone,
    MemberMoved,
    RebalanceStarted,
)
from kohort.model import Millis, TopicPartition
from kohort.testing.events import GroupChanged
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Connection, Group, Member, Run
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.leave_group import LeaveGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest

_LOOK_EVERY: Millis = 1_000
_SLACK: Millis = 10_000
_SESSION: Millis = 45_000
"""Session timeout of members that do not tell it: Kafka's default."""
_BY_JOIN = {
    Cause.FIRST_MEMBER,
    Cause.MEMBER_JOINED,
    Cause.SUBSCRIPTION_CHANGED,
    Cause.OWNED_CHANGED,
    Cause.LEADER_REJOINED,
}
_BY_MEMBER = _BY_JOIN | {
    Cause.ASSIGNOR_CHANGED,
    Cause.MEMBER_LEFT,
    Cause.REBALANCE_ENFORCED,
    Cause.WEIGHT_CHANGED,
}
"""Causes for which a member is to blame if it repeats them."""
_CHANGES = JoinGroupRequest | SyncGroupRequest | ConsumerGroupHeartbeatRequest
_JOINS = JoinGroupRequest | ConsumerGroupHeartbeatRequest
_LEAVES = LeaveGroupRequest | ConsumerGroupHeartbeatRequest
_LEFT_OPEN = 3
"""Number of heartbeats after which a member has surely learned of a rebalance."""


class GroupRules:
    """Rules of the events of groups, and of what should happen within a time."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._looked_at: Millis = 0
        self._rules: dict[type, Callable[[GroupChanged, Any], None]] = {
            RebalanceStarted: self._rebalance,
            GroupEpochBumped: self._bumped,
            MemberCame: self._came,
            MemberMoved: self._moved,
            MemberGone: self._gone,
        }

    def changed(self, event: GroupChanged) -> None:
        """Check one event of a group."""
        rule = self._rules.get(type(event.event))
        if rule is not None:
            rule(event, event.event)

    # Rebalances

    def _rebalance(self, event: GroupChanged, started: RebalanceStarted) -> None:
        group = self._scene.group(started.group_id, event.broker)
        self._check_cause(event, started.group_id, started.cause)
        self._count(event, group, started.cause, started.member_id)

    def _bumped(self, event: GroupChanged, bumped: GroupEpochBumped) -> None:
        group = self._scene.group(bumped.group_id, event.broker)
        self._check_cause(event, bumped.group_id, bumped.cause)
        self._count(event, group, bumped.cause, bumped.member_id)

    def _check_cause(self, event: GroupChanged, group_id: str, cause: Cause) -> None:
        if cause in _BY_JOIN and not self._has_join(group_id):
            self._scene.report(
                Invariant.CAUSED_REBALANCES,
                Fault.BROKER,
                group_id,
                "",
                f"A rebalance of group {group_id} began with the cause {cause.value!r}, but no member asked for it.",
                "The coordinator starts rebalances, and reported this cause.",
                (event,),
                key=cause.value,
            )

    def _has_join(self, group_id: str) -> bool:
        """Return whether a request that can change the group is open, or a connection is not known wholly."""
        connections = self._scene.connections
        group = self._scene.groups.get(group_id)
        last = None if group is None else connections.get(group.asked_on)
        if last is not None and _has_open(last, _CHANGES, group_id):
            return True
        return any(
            not connection.is_whole or _has_open(connection, _CHANGES, group_id) for connection in connections.values()
        )

    def _count(self, event: GroupChanged, group: Group, cause: Cause, member_id: str | None) -> None:
        """Count the rebalances that one member causes in a row."""
        connection = self._connection_of(group, member_id) if cause in _BY_MEMBER else None
        if connection is None or (cause is Cause.MEMBER_LEFT and not _has_open(connection, _LEAVES, group.group_id)):
            group.run = None
            return
        if group.run is None or group.run.connection != connection.number:
            group.run = Run(connection.number, deque(maxlen=self._scene.limits.storm_rebalances))
        if cause is Cause.SUBSCRIPTION_CHANGED:
            # The application decides what it subscribes to: only what it had before can be a client that wavers.
            asked = _subscriptions(connection, group.group_id)
            if not asked <= group.run.subscriptions:
                group.run.subscriptions |= asked
                return
        times = group.run.times
        times.append((event.at, event))
        if len(times) == times.maxlen and event.at - times[0][0] <= self._scene.limits.storm_ms:
            client_id = "" if connection.client is None else connection.client.client_id
            self._scene.report(
                Invariant.NO_STORM,
                Fault.CLIENT,
                group.group_id,
                client_id,
                f"Client {client_id!r} caused {len(times)} rebalances of group {group.group_id} in a row within "
                f"{event.at - times[0][0]} ms, the last one because: {cause.value}.",
                "No other member, topic or broker changed in between.",
                [each for _, each in times],
                key=client_id,
            )

    def _connection_of(self, group: Group, member_id: str | None) -> Connection | None:
        """Return the open connection of a member that caused a rebalance, which may be about to join."""
        if member_id is None:
            return None
        number = group.connections.get(member_id)
        if number is not None:
            return self._scene.connections.get(number)
        # A coordinator acts while it handles a request, so the last one is that of the new member.
        connection = self._scene.connections.get(group.asked_on)
        return connection if connection is not None and _has_open(connection, _JOINS, group.group_id) else None

    def _came(self, event: GroupChanged, came: MemberCame) -> None:
        group = self._scene.group(came.group_id, event.broker)
        group.is_consumer = True
        group.gone.pop(came.member.member_id, None)

    def _moved(self, event: GroupChanged, moved: MemberMoved) -> None:
        self._scene.group(moved.group_id, event.broker).gone.pop(moved.member.member_id, None)

    # Members that are removed

    def _gone(self, event: GroupChanged, gone: MemberGone) -> None:
        group = self._scene.group(gone.group_id, event.broker)
        member = group.members.get(gone.member.member_id)
        if member is not None and member.broker == event.broker:
            self._check_removal(event, group, member, gone)
        self._scene.remove(group, gone.member.member_id, event)

    def _check_removal(self, event: GroupChanged, group: Group, member: Member, gone: MemberGone) -> None:
        expired = gone.cause is Cause.SESSION_EXPIRED
        late = gone.cause is Cause.REBALANCE_TIMEOUT
        if (expired or late) and member.abandoned is not None:
            self._blame_client(
                event,
                group,
                member,
                Invariant.KEPT_MEMBER_ID,
                "was left behind until its timeout: its connection joined again under another member id",
                "The group waits for the old member, although its client lives.",
            )
            return
        if self._scene.acted_at >= member.heard_at >= 0 and self._scene.acted:
            return  # the kit may have expired it, dropped its requests, or advanced time
        if expired and member.heard is not None:
            self._check_expiry(event, group, member)
        elif late and member.is_classic and member.told_of_rebalance >= _LEFT_OPEN:
            self._blame_client(
                event,
                group,
                member,
                Invariant.JOINED_REBALANCES,
                f"was told of a rebalance {member.told_of_rebalance} times, sent heartbeats, "
                "and did not join within its rebalance timeout",
                "Each answer REBALANCE_IN_PROGRESS says that it must join again.",
            )
        elif late and not member.is_classic and member.heartbeats_since_told >= _LEFT_OPEN:
            self._blame_client(
                event,
                group,
                member,
                Invariant.JOINED_REBALANCES,
                f"was told to give up partitions, sent {member.heartbeats_since_told} heartbeats, "
                "and did not give them up within its rebalance timeout",
                "The answer contained its new assignment, without these partitions.",
            )
        elif gone.cause is Cause.SYNC_MISSED and member.joined is not None:
            self._check_sync(event, group, member)

    def _check_expiry(self, event: GroupChanged, group: Group, member: Member) -> None:
        silent = event.at - member.heard_at
        client, connection = member.client, self._scene.connections.get(member.connection)
        session = member.session_ms or _SESSION
        # The session begins when the coordinator handles a request, `silent` when the answer leaves: a busy machine,
        # or a slow disk, puts time between them.
        slack = min(session // 4, self._scene.limits.in_flight_ms)
        if member.is_classic and member.session_ms is not None and silent < session - slack:
            self._scene.report(
                Invariant.LIVING_MEMBERS,
                Fault.BROKER,
                group.group_id,
                member.client.client_id,
                f"The session of member {member.member_id!r} of group {group.group_id} expired {silent} ms after "
                f"its last request, although its session timeout is {member.session_ms} ms.",
                "The coordinator must wait for the whole session timeout.",
                (member.since, member.heard, event),
                key=member.member_id,
            )
        if (
            len(client.members) == 1
            and client.fetched is not None
            and client.connections
            and silent >= session - slack
            and event.at - client.fetched_at < session // 3
            and client.fetched.connection in client.connections
            and connection is not None
            and not any(asked.event is member.heard for asked in connection.asked.values())
        ):
            self._blame_client(
                event,
                group,
                member,
                Invariant.HEARTBEATS,
                f"sent no heartbeat for {silent} ms until its session expired, although its client went on fetching",
                "The client lives and can reach the broker.",
            )

    def _check_sync(self, event: GroupChanged, group: Group, member: Member) -> None:
        assert member.joined is not None
        is_connected = member.connection in self._scene.connections
        spoke = member.client.fetched_at > member.joined.at or member.heard_at > member.joined.at
        if not is_connected:
            return  # it crashed
        self._scene.report(
            Invariant.SYNC_AFTER_JOIN,
            Fault.CLIENT if spoke else Fault.UNDECIDED,
            group.group_id,
            member.client.client_id,
            f"Member {member.member_id!r} of group {group.group_id} joined generation {member.generation} "
            "and never sent SyncGroup.",
            "It sent other requests since." if spoke else "Its connection is open, but it may have been suspended.",
            (member.joined, event),
            key=member.member_id,
        )

    def _blame_client(
        self, event: GroupChanged, group: Group, member: Member, invariant: Invariant, what: str, why: str
    ) -> None:
        self._scene.report(
            invariant,
            Fault.CLIENT,
            group.group_id,
            member.client.client_id,
            f"Member {member.member_id!r} of group {group.group_id} {what}.",
            why,
            (member.since, member.told, member.told_to_give_up, member.abandoned, member.heard, event),
            key=member.member_id,
        )

    # Time

    def kit_acted(self) -> None:
        """Begin anew to measure how long partitions are unassigned."""
        for group in self._scene.groups.values():
            group.dark.clear()
            group.is_changed = True

    def time_passed(self) -> None:
        """Look for unassigned partitions from time to time."""
        scene = self._scene
        if scene.now - self._looked_at >= _LOOK_EVERY and scene.limits.unassigned_checks:
            self._looked_at = scene.now
            for group in scene.groups.values():
                self._look(group)

    def finish(self) -> None:
        """Look for what did not happen until the end."""
        if self._scene.limits.unassigned_checks:
            for group in self._scene.groups.values():
                self._look(group)

    def _look(self, group: Group) -> None:
        if not group.members:
            group.dark.clear()
            return
        if group.is_changed:
            group.is_changed = False
            self._find_dark(group)
        if not group.dark:
            return
        now, limits = self._scene.now, self._scene.limits
        bound = limits.unassigned_ms
        if bound is None:
            bound = _SLACK + max(
                max(member.session_ms or _SESSION, member.rebalance_ms or 0) for member in group.members.values()
            )
        for place, since in group.dark.items():
            allowed = bound if place in group.owners else bound + limits.discovery_ms
            if now - since > allowed:
                self._report_dark(group, place, now - since)
                break

    def _find_dark(self, group: Group) -> None:
        """Compute which partitions of subscribed topics no member has."""
        counts = self._scene.topics.counts
        wanted: set[str] = set()
        owned: set[TopicPartition] = set()
        for member in group.members.values():
            wanted |= member.topics or set()
            has = member.assigned | member.giving_up
            owned |= has if member.keeps is None else has & member.keeps
        dark = {
            place
            for topic in wanted
            for number in range(counts.get(topic, 0))
            if (place := TopicPartition(topic, number)) not in owned
        }
        group.dark = {place: group.dark.get(place, self._scene.now) for place in dark}

    def _report_dark(self, group: Group, place: TopicPartition, lasted: Millis) -> None:
        slow = [member for member in group.members.values() if member.told is not None or member.giving_up]
        owing = [member for member in group.members.values() if member.joined is not None]
        if slow or owing:
            member = (slow or owing)[0]
            fault, why = Fault.CLIENT, f"The group waits for member {member.member_id!r}, which was told to act."
        elif group.is_consumer:
            fault, why = Fault.BROKER, "The coordinator computes the assignment, and waits for no member."
        else:
            fault, why = Fault.UNDECIDED, "The leader may not know of the partition, or a member may not answer."
        self._scene.report(
            Invariant.ASSIGNED_PARTITIONS,
            fault,
            group.group_id,
            "",
            f"No member of group {group.group_id} has had {place} for {lasted} ms.",
            why,
            [event for member in group.members.values() for event in (member.since, member.told)][:8],
            key=str(place),
        )


def _has_open(connection: Connection, kind: UnionType, group_id: str) -> bool:
    """Return whether a request of that kind for the group has no answer yet."""
    return any(
        isinstance(asked.event.request, kind) and getattr(asked.event.request, "group_id", None) == group_id
        for asked in connection.asked.values()
    )


def _subscriptions(connection: Connection, group_id: str) -> set[object]:
    """Return what the open requests to join the group subscribe to."""
    found: set[object] = set()
    for asked in connection.asked.values():
        request = asked.event.request
        if isinstance(request, JoinGroupRequest) and request.group_id == group_id and asked.note is not None:
            found.add(frozenset(asked.note.topics))
        elif isinstance(request, ConsumerGroupHeartbeatRequest) and request.group_id == group_id:
            found.add((frozenset(request.subscribed_topic_names or ()), request.subscribed_topic_regex))
    return found
