"""Rules of the consumer protocol (KIP-848): ConsumerGroupHeartbeat.

A member's partitions are those of the answers to it. It has one until it reports, by the partitions in a
heartbeat, that it gave it up.
"""

from collections.abc import Callable
from typing import Any

from kohort.errors import ErrorCode
from kohort.testing.events import AnswerLost, AnswerSent, RequestReceived
from kohort.testing.invariants.refusals import Refusals
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import NONE, Asked, GivenUp, Group, Member
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

Answer = AnswerSent | AnswerLost

_JOIN = 0


class ConsumerRules:
    """Rules of the heartbeats of consumer groups."""

    def __init__(self, scene: Scene, refusals: Refusals) -> None:
        self._scene = scene
        self._refusals = refusals
        self.requests: dict[type[Message], Callable[[Asked], None]] = {ConsumerGroupHeartbeatRequest: self._beats}
        self.answers: dict[type[Message], Callable[[Asked, Any, Answer], None]] = {
            ConsumerGroupHeartbeatRequest: self._beaten
        }

    def _beats(self, asked: Asked) -> None:
        event = asked.event
        request = event.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        scene = self._scene
        group = scene.group(request.group_id)
        group.asked_on = event.connection
        self._refusals.arrived(asked, group.group_id, request.member_id, request.member_epoch)
        member = scene.heard(group, asked, request.member_id)
        connection = scene.connections[event.connection]
        if request.member_epoch == _JOIN:
            before = group.members.get(connection.members.get(group.group_id, ""))
            if before is not None and before is not member and before.abandoned is None and not before.is_free:
                before.abandoned = event
            return
        if member is None:
            return
        if request.member_epoch < 0:
            member.is_free = True
            return
        if request.member_epoch > member.generation >= 0:
            self._scene.report(
                Invariant.GIVEN_EPOCHS,
                Fault.CLIENT,
                group.group_id,
                event.client_id,
                f"Member {member.member_id!r} of group {group.group_id} sent epoch {request.member_epoch}, "
                f"but the latest that it was given is {member.generation}.",
                "A member has the epoch of the last answer to its heartbeats.",
                (member.since, event),
                key=member.member_id,
            )
        if member.unnamed is not None:
            self._tell(group, member, member.unnamed)
        if request.topic_partitions is not None:
            self._reports(group, member, request, event)
        if member.told_to_give_up is not None and member.giving_up:
            member.heartbeats_since_told += 1

    def _reports(
        self, group: Group, member: Member, request: ConsumerGroupHeartbeatRequest, event: RequestReceived
    ) -> None:
        """Take what the member reports to have."""
        owned = self._scene.topics.places(request.topic_partitions or ())
        if owned is None:
            return
        foreign = sorted(owned - member.ever)
        if foreign and member.is_assigned and member.is_known:
            self._scene.report(
                Invariant.OWNED_FETCHES,
                Fault.CLIENT,
                group.group_id,
                event.client_id,
                f"Member {member.member_id!r} of group {group.group_id} reported to have {foreign[0]}, "
                "which it was never assigned.",
                "A member has only partitions of the answers to its heartbeats.",
                (member.since, event),
                key=member.member_id,
            )
        for place in member.giving_up - owned:
            member.given_up[place] = GivenUp(event, event)
        member.giving_up &= owned
        if not member.giving_up:
            member.told_to_give_up, member.heartbeats_since_told = None, 0
        group.is_changed = True

    def _beaten(self, asked: Asked, response: ConsumerGroupHeartbeatResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        scene = self._scene
        group_id = request.group_id
        if response.error_code:
            if isinstance(event, AnswerSent):
                self._refusals.answered(
                    asked, event, group_id, request.member_id, request.member_epoch, response.error_code
                )
                if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                    self._is_fenced(asked, event)
            return
        member_id = response.member_id or request.member_id
        if response.assignment is None and self._is_of_former_coordinator(asked, group_id, member_id, event):
            return
        group = scene.group(group_id, event.broker)
        group.is_consumer = True
        if request.member_epoch < _JOIN:
            scene.remove(group, member_id, event, left=True)
            return
        member = group.living(asked.event, member_id)
        if request.member_epoch == _JOIN:
            self._refusals.joined(group_id, asked.event.client_id)
            member = self._joined(asked, group, member_id, request, event)
        if member is None:
            return
        self._check_epoch(asked, group, member, response.member_epoch, event)
        member.generation, member.told_by = response.member_epoch, (event.broker, scene.number)
        if request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None:
            names = request.subscribed_topic_names
            member.topics = None if request.subscribed_topic_regex or names is None else frozenset(names)
            group.is_changed = True
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_ms = request.rebalance_timeout_ms
        if response.assignment is not None:
            self._tell(group, member, event)

    def _is_of_former_coordinator(self, asked: Asked, group_id: str, member_id: str, event: Answer) -> bool:
        """Return whether a broker answers a heartbeat that is older than what another broker has told the member.

        A broker that was suspended may answer heartbeats that it holds, which have no news, before it learns that
        another one took over.
        """
        group = self._scene.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is None:
            return False
        broker, number = member.told_by
        return broker != event.broker and asked.number < number

    def _tell(self, group: Group, member: Member, event: Answer) -> None:
        """Take the assignment that the member is told."""
        scene, is_sent, response = self._scene, isinstance(event, AnswerSent), event.response
        assert isinstance(response, ConsumerGroupHeartbeatResponse) and response.assignment is not None
        partitions = scene.topics.places(response.assignment.topic_partitions)
        if (not is_sent and partitions is None) or member.unnamed not in (None, event):
            member.is_known = False  # what it has may be from an assignment in between
        if partitions is None:
            member.unnamed = event if isinstance(event, AnswerSent) else None
            member.is_assigned = False
            return
        member.unnamed = None
        # Also if the answer is lost: the next one repeats it, and only then does the member give up anything.
        member.giving_up = (member.giving_up | member.assigned) - partitions
        if is_sent and member.giving_up and member.told_to_give_up is None:
            member.told_to_give_up, member.heartbeats_since_told = event, 0
        scene.assigned(group, member, partitions, event)

    def _joined(
        self, asked: Asked, group: Group, member_id: str, request: ConsumerGroupHeartbeatRequest, event: Answer
    ) -> Member:
        if request.instance_id is not None:
            for other in [m for m in group.members.values() if m.instance_id == request.instance_id]:
                if other.member_id != member_id:
                    self._scene.remove(group, other.member_id, event)
        member = self._scene.new_member(group, asked, member_id, request.instance_id, event, is_classic=False)
        member.since = event
        member.generation = -1
        member.assigned = member.giving_up = NONE
        member.is_known, member.unnamed = True, None
        member.told_to_give_up, member.heartbeats_since_told = None, 0
        member.given_up.clear()
        member.heard, member.heard_at, member.broker = asked.event, event.at, event.broker
        if isinstance(event, AnswerSent):
            self._scene.connections[event.connection].members[group.group_id] = member_id
        return member

    def _check_epoch(self, asked: Asked, group: Group, member: Member, epoch: int, event: Answer) -> None:
        if epoch < member.generation:
            self._scene.report(
                Invariant.RISING_EPOCHS,
                Fault.BROKER,
                group.group_id,
                asked.event.client_id,
                f"The coordinator told member {member.member_id!r} of group {group.group_id} epoch {epoch} "
                f"after epoch {member.generation}.",
                "The coordinator chooses epochs, and the member did not join again in between.",
                (member.since, asked.event, event),
                key=member.member_id,
            )

    def _is_fenced(self, asked: Asked, event: AnswerSent) -> None:
        """Record that a member learned that it has no partitions any more."""
        request = asked.event.request
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        group = self._scene.groups.get(request.group_id)
        member = None if group is None else group.living(asked.event, request.member_id)
        if group is not None and member is not None:
            member.is_assigned = False
