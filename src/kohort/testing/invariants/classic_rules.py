"""Rules of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Decidable on the wire: what a member was told (its answers), what it does next on its connections, and
what the leader computes. Not decidable: what the application does, so a member that keeps its session
without ever polling is found only when it misses a rebalance.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.testing.events import AnswerLost, AnswerSent, RequestReceived
from kohort.testing.invariants.assignments import CONSUMER, owned_of, partitions_of, subscription_of, topics_of
from kohort.testing.invariants.refusals import Refusals
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import NONE, Asked, GivenUp, Group, Handed, Member, Partitions
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import Subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Answer = AnswerSent | AnswerLost

_COOPERATIVE = frozenset({"cooperative-sticky", "warm"})
"""Assignors that move a partition in two steps."""


class ClassicRules:
    """Rules of the requests of classic members."""

    def __init__(self, scene: Scene, refusals: Refusals) -> None:
        self._scene = scene
        self._refusals = refusals
        self.requests: dict[type[Message], Callable[[Asked], None]] = {
            JoinGroupRequest: self._joins,
            SyncGroupRequest: self._syncs,
            HeartbeatRequest: self._beats,
            LeaveGroupRequest: self._leaves,
        }
        self.answers: dict[type[Message], Callable[[Asked, Any, Answer], None]] = {
            JoinGroupRequest: self._joined,
            SyncGroupRequest: self._synced,
            HeartbeatRequest: self._beaten,
            LeaveGroupRequest: self._left,
        }

    # JoinGroup

    def _joins(self, asked: Asked) -> None:
        event = asked.event
        request = event.request
        assert isinstance(request, JoinGroupRequest)
        scene = self._scene
        group = scene.group(request.group_id)
        group.asked_on = event.connection
        connection = scene.connections[event.connection]
        if request.member_id:
            self._refusals.arrived(asked, group.group_id, request.member_id, None)
            handed = connection.handed.get(group.group_id)
            if handed is not None and handed.member_id == request.member_id:
                del connection.handed[group.group_id]
        member = scene.heard(group, asked, request.member_id)
        before = group.members.get(connection.members.get(group.group_id, ""))
        if before is not None and before is not member and before.abandoned is None and not before.is_free:
            before.abandoned = event
        if not request.member_id and request.group_instance_id is None:
            self._asks_for_an_id(asked, group)
        subscription = subscription_of(request)
        asked.note = subscription
        if member is not None:
            member.told_of_rebalance, member.told, member.joined = 0, None, None
            self._gives_up(member, request, subscription, event)

    def _asks_for_an_id(self, asked: Asked, group: Group) -> None:
        connection = self._scene.connections[asked.event.connection]
        handed = connection.handed.get(group.group_id)
        if handed is None:
            return
        handed.times += 1
        if handed.times >= self._scene.limits.repeats:
            self._scene.report(
                Invariant.KEPT_MEMBER_ID,
                Fault.CLIENT,
                group.group_id,
                asked.event.client_id,
                f"Client {asked.event.client_id!r} asked for a new member id of group {group.group_id} "
                f"{handed.times + 1} times on one connection, and never joined with {handed.member_id!r}.",
                "The answer MEMBER_ID_REQUIRED contains the id with which it must join (KIP-394).",
                (handed.first, asked.event),
                key=asked.event.client_id,
            )

    def _gives_up(
        self, member: Member, request: JoinGroupRequest, subscription: Subscription | None, event: RequestReceived
    ) -> None:
        """Record what the member gives up with this JoinGroup: all that it does not report to own."""
        if subscription is None:
            member.keeps = member.assigned | member.giving_up  # another protocol type: unknown
            return
        member.keeps = owned = owned_of(subscription)
        for place in (member.assigned | member.giving_up) - owned:
            member.given_up[place] = GivenUp(event, event)
        self._scene.groups[member.group_id].is_changed = True

    def _joined(self, asked: Asked, response: JoinGroupResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, JoinGroupRequest)
        scene, group_id = self._scene, request.group_id
        group = scene.group(group_id)
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            connection = scene.connections[event.connection]
            handed = connection.handed.get(group_id)
            if isinstance(event, AnswerSent) and handed is None:
                connection.handed[group_id] = Handed(response.member_id, event)
            return
        if code:
            if isinstance(event, AnswerSent):
                self._refusals.answered(asked, event, group_id, request.member_id, None, code)
            return
        self._refusals.joined(group_id, asked.event.client_id)
        group = scene.group(group_id, event.broker)
        group.protocol_type = request.protocol_type
        self._check_generation(asked, group, response, event)
        if request.group_instance_id is not None:
            for other in [m for m in group.members.values() if m.instance_id == request.group_instance_id]:
                if other.member_id != response.member_id:
                    scene.remove(group, other.member_id, event)
        client = scene.connection(asked.event).client
        former = None if client is None else client.former
        member = scene.new_member(group, asked, response.member_id, request.group_instance_id, event, is_classic=True)
        member.since, member.generation = event, response.generation_id
        member.session_ms = request.session_timeout_ms
        member.rebalance_ms = (
            request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms
        )
        subscription: Subscription | None = asked.note
        member.topics = None if subscription is None else frozenset(subscription.topics)
        member.led = response.members
        member.claims = None
        if subscription is not None and response.protocol_name in _COOPERATIVE:
            member.claims = subscription.generation_id, owned_of(subscription)
        ids = {request.member_id, response.member_id}
        if (
            former is not None
            and former.group_id == group_id
            and ids == {former.member_id}
            and subscription is not None
        ):
            # Its removal was lost with its coordinator: it is still a member, with what it had.
            member.giving_up, member.keeps = former.partitions, owned_of(subscription)
        member.heard, member.heard_at, member.broker = asked.event, event.at, event.broker
        member.is_assigned = False
        if isinstance(event, AnswerSent):
            member.joined = event
            connection = scene.connections[event.connection]
            connection.members[group_id] = response.member_id
            connection.handed.pop(group_id, None)

    def _check_generation(self, asked: Asked, group: Group, response: JoinGroupResponse, event: Answer) -> None:
        generation = response.generation_id
        if group.stored is not None and generation < group.generation and not group.is_consumer:
            if (
                generation == group.generation - 1
                and response.member_id not in group.stored_in
                and group.stored.at >= asked.event.at
            ):
                # An administrator removed the member while the answer was on its way to the network: for example, it
                # waited for the disk. In Apache Kafka, one thread decides, and others send. The member's SyncGroup
                # is refused with UNKNOWN_MEMBER_ID. Or the last member with the new protocol was removed, and the
                # group became a classic one: the SyncGroup is refused with ILLEGAL_GENERATION.
                return
            self._scene.report(
                Invariant.RISING_EPOCHS,
                Fault.BROKER,
                group.group_id,
                asked.event.client_id,
                f"A member joined group {group.group_id} in generation {generation}, "
                f"although the group had generation {group.generation}.",
                "The coordinator chooses generations, and stored the later one.",
                (group.stored, asked.event, event),
                key=str(generation),
            )

    # SyncGroup

    def _syncs(self, asked: Asked) -> None:
        request = asked.event.request
        assert isinstance(request, SyncGroupRequest)
        group = self._scene.group(request.group_id)
        group.asked_on = asked.event.connection
        self._refusals.arrived(asked, group.group_id, request.member_id, request.generation_id)
        member = self._scene.heard(group, asked, request.member_id)
        if member is None:
            return
        member.joined = None
        self._check_given(asked, group, member, request.generation_id, request.group_instance_id)
        if request.assignments and request.generation_id == member.generation and not group.is_consumer:
            self._check_plan(asked, group, member, request)

    def _check_plan(self, asked: Asked, group: Group, leader: Member, request: SyncGroupRequest) -> None:
        """Check what the leader computed."""
        event = asked.event
        computed = {each.member_id: each.assignment for each in request.assignments}
        group.plans.append((request.generation_id, computed, event))
        if group.protocol_type != CONSUMER:
            return
        plan = {member_id: partitions_of(data) for member_id, data in computed.items()}
        # A subscription that has changed is known to the leader, even if the answer that its member got is lost.
        subscribed = {each.member_id: topics_of(each.metadata) for each in leader.led}
        owners: dict[TopicPartition, str] = {}
        for member_id, partitions in plan.items():
            for place in sorted(partitions or NONE):
                other = owners.setdefault(place, member_id)
                if other != member_id:
                    self._blame_leader(
                        Invariant.ONE_OWNER,
                        event,
                        leader,
                        f"assigned {place} to {other!r} and to {member_id!r} in generation {request.generation_id}",
                        "The leader's client computed the assignment; the coordinator only passes it on.",
                        (event,),
                    )
            topics = subscribed.get(member_id)
            if topics is None or partitions is None:
                continue
            foreign = sorted({place.topic for place in partitions} - topics)
            if foreign:
                self._blame_leader(
                    Invariant.SUBSCRIBED_ASSIGNMENT,
                    event,
                    leader,
                    f"assigned partitions of {foreign[0]!r} to {member_id!r}, which does not subscribe to that topic,",
                    "The leader's client computed the assignment from the subscriptions that it received.",
                    (leader.since, event),
                )
        self._check_claims(event, group, leader, plan)

    def _check_claims(
        self, event: RequestReceived, group: Group, leader: Member, plan: Mapping[str, Partitions | None]
    ) -> None:
        """Check that no partition moves while a cooperative member still owns it."""
        claims = [
            (member, *member.claims)
            for member_id in plan
            if (member := group.members.get(member_id)) is not None
            and member.claims is not None
            and member.generation == leader.generation
        ]
        newest = max((generation for _, generation, _ in claims), default=-1)
        if newest < 0 or len(claims) != len(plan):
            return  # another assignor, or members of a version that does not report generations
        claimants: dict[TopicPartition, list[Member]] = {}
        for member, generation, owned in claims:
            if generation == newest:
                for place in owned:
                    claimants.setdefault(place, []).append(member)
        for member_id, partitions in plan.items():
            for place in sorted(partitions or NONE):
                holders = claimants.get(place, [])
                if len(holders) == 1 and holders[0].member_id != member_id:
                    self._blame_leader(
                        Invariant.TWO_STEP_MOVES,
                        event,
                        leader,
                        f"assigned {place} to {member_id!r} while {holders[0].member_id!r} still had it",
                        "The owner reported the partition in its JoinGroup, so the leader's client knew of it.",
                        (holders[0].since, event),
                    )

    def _blame_leader(
        self,
        invariant: Invariant,
        event: RequestReceived,
        leader: Member,
        what: str,
        why: str,
        events: Iterable[Any],
    ) -> None:
        sentence = f"The leader {leader.member_id!r} of group {leader.group_id} {what}.".replace(",.", ".")
        self._scene.report(invariant, Fault.CLIENT, leader.group_id, event.client_id, sentence, why, events)

    def _synced(self, asked: Asked, response: SyncGroupResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, SyncGroupRequest)
        scene = self._scene
        group = scene.group(request.group_id)
        if response.error_code:
            if isinstance(event, AnswerSent):
                self._refusals.answered(
                    asked, event, group.group_id, request.member_id, request.generation_id, response.error_code
                )
            return
        group = scene.group(request.group_id, event.broker)
        self._check_passed_on(asked, group, request, response, event)
        member = group.living(asked.event, request.member_id)
        partitions = partitions_of(response.assignment) if group.protocol_type == CONSUMER else None
        if member is None or partitions is None:
            return
        group.is_changed = True
        kept = NONE if member.keeps is None else member.keeps
        member.giving_up = kept & (member.assigned | member.giving_up) - partitions
        member.keeps = None
        scene.assigned(group, member, partitions, event)

    def _check_passed_on(
        self, asked: Asked, group: Group, request: SyncGroupRequest, response: SyncGroupResponse, event: Answer
    ) -> None:
        computed = [
            (plan[request.member_id], event)
            for generation, plan, event in group.plans
            if generation == request.generation_id and request.member_id in plan
        ]
        if computed and not group.is_consumer and all(response.assignment != assignment for assignment, _ in computed):
            self._scene.report(
                Invariant.COMPUTED_ASSIGNMENT,
                Fault.BROKER,
                group.group_id,
                asked.event.client_id,
                f"Member {request.member_id!r} of group {group.group_id} received another assignment for generation "
                f"{request.generation_id} than the leader computed.",
                "The coordinator passes assignments on unchanged.",
                (computed[-1][1], asked.event, event),
                key=request.member_id,
            )

    # Heartbeat and LeaveGroup

    def _beats(self, asked: Asked) -> None:
        request = asked.event.request
        assert isinstance(request, HeartbeatRequest)
        group = self._scene.group(request.group_id)
        self._refusals.arrived(asked, group.group_id, request.member_id, request.generation_id)
        member = self._scene.heard(group, asked, request.member_id)
        if member is not None:
            self._check_given(asked, group, member, request.generation_id, request.group_instance_id)

    def _beaten(self, asked: Asked, response: HeartbeatResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, HeartbeatRequest)
        code = response.error_code
        if not isinstance(event, AnswerSent):
            return
        group = self._scene.group(request.group_id)
        member = group.living(asked.event, request.member_id)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._refusals.accepted(asked, group.group_id, request.member_id, request.generation_id)
        if member is not None and code == ErrorCode.REBALANCE_IN_PROGRESS:
            member.told_of_rebalance += 1
            member.told = member.told or event
        elif member is not None and not code:
            member.told_of_rebalance, member.told = 0, None
        elif code:
            if member is not None and code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
                member.heard = (
                    None  # the coordinator never saw this heartbeat, so its session goes on from an earlier one
                )
            self._refusals.answered(asked, event, group.group_id, request.member_id, request.generation_id, code)

    def _check_given(
        self, asked: Asked, group: Group, member: Member, generation: int, instance_id: str | None
    ) -> None:
        """Check that the member was given this generation."""
        if generation < 0 and instance_id is None:
            what = f"sent {type(asked.event.request).__name__.removesuffix('Request')} with generation {generation}"
        elif generation > member.generation >= 0:
            what = f"used generation {generation}, but the latest that it was given is {member.generation}"
        else:
            return
        self._scene.report(
            Invariant.GIVEN_EPOCHS,
            Fault.CLIENT,
            group.group_id,
            asked.event.client_id,
            f"Member {member.member_id!r} of group {group.group_id} {what}.",
            "A member has the generation of the answer to its JoinGroup until it joins again.",
            (member.since, asked.event),
            key=member.member_id,
        )

    def _leaves(self, asked: Asked) -> None:
        request = asked.event.request
        assert isinstance(request, LeaveGroupRequest)
        group = self._scene.group(request.group_id)
        for member_id in (request.member_id, *(each.member_id for each in request.members)):
            member = group.living(asked.event, member_id)
            if member is not None:
                member.is_free = True

    def _left(self, asked: Asked, response: LeaveGroupResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, LeaveGroupRequest)
        if response.error_code:
            return
        group = self._scene.group(request.group_id, event.broker)
        if request.member_id:
            self._scene.remove(group, request.member_id, event, left=True)
        for asked_member, result in zip(request.members, response.members, strict=False):
            if result.error_code:
                continue
            instance_id = asked_member.group_instance_id
            for member in list(group.members.values()):
                if member.member_id == asked_member.member_id or (
                    instance_id is not None and not asked_member.member_id and member.instance_id == instance_id
                ):
                    self._scene.remove(group, member.member_id, event, left=True)
