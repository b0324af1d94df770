"""Rules of reading: Fetch and ListOffsets, and what they tell about the members of a client.

A Fetch names no member. It counts as a member's if its client ID belongs to one living member only, on a
connection that read the partition while the member had it. Connections that read what no member of the
client ever had are those of another consumer and are not checked.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from kohort.errors import ErrorCode
from kohort.log import FileSlice
from kohort.model import TopicPartition
from kohort.testing.events import AnswerLost, AnswerSent, RequestReceived
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Asked, Client, Connection, Former, Group, Member
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.batches import MAGIC, Buffer
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchRequest, FetchResponse
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

Answer = AnswerSent | AnswerLost

_HEAD = Struct(">qi")
"""Base offset, and length of what follows."""
_LAST_DELTA = Struct(">i")
_LAST_DELTA_AT = 23
_MAGIC_AT = 16


class FetchRules:
    """Rules of the requests that read records."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.requests: dict[type[Message], Callable[[Asked], None]] = {FetchRequest: self._fetches}
        self.answers: dict[type[Message], Callable[[Asked, Any, Answer], None]] = {
            FetchRequest: self._fetched,
            ListOffsetsRequest: self._listed,
        }

    def _fetches(self, asked: Asked) -> None:
        event = asked.event
        request = event.request
        assert isinstance(request, FetchRequest)
        if request.replica_id >= 0 or request.replica_state is not None:
            return
        scene = self._scene
        connection = scene.connections[event.connection]
        client = connection.client
        assert client is not None
        client.fetched, client.fetched_at = event, event.at
        if not request.topics:
            return
        found = [scene.groups.get(group_id) for group_id, _ in client.members]
        members = [
            (group, group.members[member_id])
            for group, (_, member_id) in zip(found, client.members, strict=True)
            if group is not None and member_id in group.members
        ]
        for topic in request.topics:
            name = scene.topics.name(topic.topic, topic.topic_id)
            if name is None:
                continue
            for partition in topic.partitions:
                place = TopicPartition(name, partition.partition)
                if client.former is not None and client.former.told is not None:
                    self._check_fenced(event, connection, client.former, place)
                if members:
                    self._reads(event, connection, client, members, place, partition.fetch_offset)
                client.learn(place, partition.fetch_offset)

    def _reads(
        self,
        event: RequestReceived,
        connection: Connection,
        client: Client,
        members: Sequence[tuple[Group, Member]],
        place: TopicPartition,
        offset: int,
    ) -> None:
        """Check that the members of the client may read that partition."""
        if any(place in member.assigned for _, member in members):
            connection.read.add(place)
            if len(members) == 1:
                self._check_position(event, client, *members[0], place, offset)
        elif not any(place in member.ever for _, member in members):
            connection.is_free = True
        elif len(members) == 1 and place in connection.read and not connection.is_free:
            self._check_given_up(event, *members[0], place)

    def _check_given_up(self, event: RequestReceived, group: Group, member: Member, place: TopicPartition) -> None:
        given_up = member.given_up.get(place)
        if given_up is None or not member.is_assigned:
            return
        lasted = event.at - given_up.since.at
        if lasted <= self._scene.limits.in_flight_ms:
            return
        self._scene.report(
            Invariant.OWNED_FETCHES,
            Fault.CLIENT,
            group.group_id,
            event.client_id,
            f"Client {event.client_id!r} fetched {place} {lasted} ms after its member "
            f"{member.member_id!r} of group {group.group_id} had lost that partition.",
            "The member itself reported that it gave the partition up, and received an assignment without it.",
            (given_up.reported, given_up.since, event),
            key=f"{member.member_id} {place}",
        )

    def _check_fenced(
        self, event: RequestReceived, connection: Connection, former: Former, place: TopicPartition
    ) -> None:
        """Check that a client stops to read some time after it learned that it is no member any more."""
        assert former.told is not None
        lasted = event.at - former.told.at
        if (
            place not in former.partitions
            or place not in connection.read
            or connection.is_free
            or lasted <= max(self._scene.limits.patience_ms, former.rebalance_ms)
        ):
            return
        self._scene.report(
            Invariant.OWNED_FETCHES,
            Fault.CLIENT,
            former.group_id,
            event.client_id,
            f"Client {event.client_id!r} fetched {place} {lasted} ms after it learned that its member "
            f"{former.member_id!r} of group {former.group_id} is removed, and has not joined again.",
            "Another member may process the partition. The application had the time of its rebalance timeout to stop.",
            (former.told, event),
            key=f"{former.member_id} {place}",
        )

    def _check_position(
        self, event: RequestReceived, client: Client, group: Group, member: Member, place: TopicPartition, offset: int
    ) -> None:
        """Check that the member did not begin elsewhere because it could not read the committed offset."""
        failed = member.failed_positions.pop(place, None)
        if failed is None:
            return
        committed = group.committed.get(place)
        stored = None if committed is None else committed.offset
        if stored is None or offset == stored or client.listed.get(place) != offset:
            return
        self._scene.report(
            Invariant.LEARNED_POSITIONS,
            Fault.CLIENT,
            group.group_id,
            event.client_id,
            f"Member {member.member_id!r} of group {group.group_id} began to read {place} at offset {offset}, "
            f"the start or end of the log, although the group had committed {stored}.",
            "Its request for the committed offset failed, and it reset its position instead of asking again.",
            (failed, event),
            key=f"{member.member_id} {place}",
        )

    def _fetched(self, asked: Asked, response: FetchResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, FetchRequest)
        scene = self._scene
        client = scene.connections[event.connection].client
        if not isinstance(event, AnswerSent) or client is None or request.replica_id >= 0:
            return
        for topic in response.responses:
            name = scene.topics.name(topic.topic, topic.topic_id)
            if name is None:
                if topic.partitions and any(part.records for part in topic.partitions):
                    client.is_whole = False  # a topic whose name no client asked for
                continue
            for part in topic.partitions:
                place = TopicPartition(name, part.partition_index)
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._out_of_range(client, place)
                elif not part.error_code and part.records:
                    end = end_of(part.records)
                    if end is not None:
                        client.learn(place, end)

    def _out_of_range(self, client: Client, place: TopicPartition) -> None:
        """Let members begin anew: the records at the committed offset are gone."""
        for group_id, _ in client.members:
            group = self._scene.groups.get(group_id)
            committed = None if group is None else group.committed.get(place)
            if committed is not None:
                committed.acknowledged = None

    def _listed(self, asked: Asked, response: ListOffsetsResponse, event: Answer) -> None:
        client = self._scene.connections[event.connection].client
        if not isinstance(event, AnswerSent) or client is None:
            return
        for topic in response.topics:
            for part in topic.partitions:
                if not part.error_code and part.offset >= 0:
                    place = TopicPartition(topic.name, part.partition_index)
                    client.learn(place, part.offset)
                    client.listed[place] = part.offset


def end_of(records: Any) -> int | None:
    """Return the offset after the last whole batch; None if there is none."""
    end = None
    for part in records if isinstance(records, list) else [records]:
        data: Buffer = part.read() if isinstance(part, FileSlice) else part
        position, size = 0, len(data)
        while size - position > _LAST_DELTA_AT + _LAST_DELTA.size:
            base, length = _HEAD.unpack_from(data, position)
            if data[position + _MAGIC_AT] != MAGIC or length <= 0 or position + _HEAD.size + length > size:
                break
            end = base + _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)[0] + 1
            position += _HEAD.size + length
    return end
