"""Rules of committed offsets: OffsetCommit, OffsetFetch, OffsetDelete and DeleteGroups.

A commit is *a member's* if it contains a member ID; with generation -1 and no member ID it is an
administrator's or that of a consumer without a group, and may set any offset.

A commit that falls behind an acknowledged one of the group is the client's fault even if the
application sought back on purpose, because records are then processed again without anybody's
knowledge; such groups are allowed by `Invariant.FORWARD_COMMITS`.

Fetches belong to a client ID, not to a member. A commit is justified if some connection with the
member's client ID was delivered the records below it, found that offset in an answer (OffsetFetch,
ListOffsets), or fetched from there (it sought). So clients that share an ID hide each other's errors,
and no honest client is accused. A client that never fetches reads elsewhere (Spark's executors do); what
it commits is compared with what others received, if they read that partition at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kohort.model import TopicPartition
from kohort.testing.events import AnswerLost, AnswerSent, Event
from kohort.testing.invariants.refusals import Refusals
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Acknowledged, Asked, Committed, Group, Member, Version
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.codec import Message
from kohort.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

Answer = AnswerSent | AnswerLost


@dataclass(slots=True)
class CommitNote:
    """What was known when a commit arrived."""

    offsets: dict[TopicPartition, int]
    fenced_by: Event | None = None
    """Event after which the member may not commit."""
    written: set[TopicPartition] = field(default_factory=set)
    """Partitions whose offsets the coordinator has stored."""
    missing: frozenset[TopicPartition] = frozenset()
    """Partitions that the member did not have when the commit arrived."""


class CommitRules:
    """Rules of the requests about committed offsets."""

    def __init__(self, scene: Scene, refusals: Refusals) -> None:
        self._scene = scene
        self._refusals = refusals
        self.requests: dict[type[Message], Callable[[Asked], None]] = {OffsetCommitRequest: self._commits}
        self.answers: dict[type[Message], Callable[[Asked, Any, Answer], None]] = {
            OffsetCommitRequest: self._committed,
            OffsetFetchRequest: self._found,
            OffsetDeleteRequest: self._deleted,
            DeleteGroupsRequest: self._groups_deleted,
        }

    # OffsetCommit

    def _commits(self, asked: Asked) -> None:
        event = asked.event
        request = event.request
        assert isinstance(request, OffsetCommitRequest)
        scene = self._scene
        group = scene.group(request.group_id)
        generation, member_id = request.generation_id_or_member_epoch, request.member_id
        if member_id:
            self._refusals.arrived(asked, group.group_id, member_id, generation, is_commit=True)
        elif generation >= 0:
            scene.report(
                Invariant.GIVEN_EPOCHS,
                Fault.CLIENT,
                group.group_id,
                event.client_id,
                f"Client {event.client_id!r} committed for group {group.group_id} with generation {generation}, "
                "but without a member id.",
                "It had lost its membership, and with it the partitions. Without a member, the generation is -1.",
                (event,),
                key=event.client_id,
            )
        note = asked.note = CommitNote(_offsets(scene, request))
        group.commits[event.request_id] = asked
        member = group.living(event, member_id) if member_id else None
        note.fenced_by = self._fenced_by(group, member_id, generation, note)
        if member is None:
            return
        if generation < 0 and request.group_instance_id is None:
            scene.report(
                Invariant.GIVEN_EPOCHS,
                Fault.CLIENT,
                group.group_id,
                event.client_id,
                f"Member {member_id!r} of group {group.group_id} committed with generation {generation}.",
                "A member commits with the generation that it was given.",
                (member.since, event),
                key=member_id,
            )
        elif (
            member.is_assigned
            and member.is_known
            and generation == member.generation
            and (group.protocol_type in ("", "consumer"))
        ):
            note.missing = frozenset(note.offsets) - member.assigned - member.giving_up

    def _fenced_by(self, group: Group, member_id: str, generation: int, note: CommitNote) -> Event | None:
        """Return the event after which this commit may not be accepted; None if it may, or if that is not known."""
        if not member_id:
            return None
        if member_id in group.gone and member_id not in group.members and member_id not in group.stored_members:
            return group.gone[member_id]
        if group.stored is None or generation < 0:
            return None
        if not group.is_consumer:
            return group.stored if generation < group.generation else None
        stored = group.stored_members.get(member_id)
        if stored is None or generation == stored.epoch:
            return None
        if generation > stored.epoch:
            return stored.event
        names = self._scene.topics.names
        epochs = {
            TopicPartition(names[topic_id], number): epoch
            for (topic_id, number), epoch in stored.partitions.items()
            if topic_id in names
        }
        if len(epochs) < len(stored.partitions):
            return None  # topics that no client has asked for
        # KIP-1251: a commit also counts from the epoch on at which the partition was assigned.
        if any(generation < epochs.get(place, stored.epoch) for place in note.offsets):
            return stored.event
        return None

    def _committed(self, asked: Asked, response: OffsetCommitResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, OffsetCommitRequest)
        scene, note = self._scene, asked.note
        assert isinstance(note, CommitNote)
        member_id, generation = request.member_id, request.generation_id_or_member_epoch
        group = scene.group(request.group_id)
        group.commits.pop(asked.event.request_id, None)
        accepted: list[TopicPartition] = []
        for topic in response.topics:
            name = scene.topics.name(getattr(topic, "name", ""), topic.topic_id)
            for partition in topic.partitions:
                if partition.error_code and isinstance(event, AnswerSent):
                    self._refusals.answered(asked, event, group.group_id, member_id, generation, partition.error_code)
                elif not partition.error_code and name is not None:
                    accepted.append(TopicPartition(name, partition.partition_index))
        if not accepted:
            return
        group = scene.group(request.group_id, event.broker)
        if note.fenced_by is not None and member_id:
            scene.report(
                Invariant.NO_FENCED_COMMIT,
                Fault.BROKER,
                group.group_id,
                asked.event.client_id,
                f"The coordinator accepted a commit of member {member_id!r} of group {group.group_id} "
                f"with generation or epoch {generation}.",
                "This member or its generation was over before the request arrived.",
                (note.fenced_by, asked.event, event),
                key=member_id,
            )
        for place in accepted:
            # A commit whose answer is late may be one for the topic that had the name before.
            if place in note.offsets and not scene.topics.changed_since(place.topic, asked.number):
                self._accepted(asked, group, place, note, event)

    def _accepted(self, asked: Asked, group: Group, place: TopicPartition, note: CommitNote, event: Answer) -> None:
        scene, client_id = self._scene, asked.event.client_id
        request = asked.event.request
        assert isinstance(request, OffsetCommitRequest)
        offset, committed = note.offsets[place], group.of(place)
        if group.has_records and place not in note.written and place.topic not in scene.topics.doubtful:
            scene.report(
                Invariant.KEPT_COMMITS,
                Fault.BROKER,
                group.group_id,
                client_id,
                f"The coordinator acknowledged offset {offset} of {place} for group {group.group_id} "
                "without storing it.",
                "An acknowledged commit must survive the coordinator.",
                (asked.event, event),
                key=str(place),
            )
        for version in reversed(committed.versions):
            if version.number > asked.number and version.offset == offset:
                version.is_acknowledged = True
                break
        else:
            if not group.has_records:
                committed.versions.append(Version(scene.number, offset, is_acknowledged=True))
        member = group.living(asked.event, request.member_id) if request.member_id else None
        if request.member_id:
            self._check_direction(asked, group, place, offset, committed, event)
        if member is not None:
            self._check_delivery(asked, group, member, place, offset, event)
            if place in note.missing:
                given_up = member.given_up.get(place)
                scene.report(
                    Invariant.OWNED_COMMITS,
                    Fault.CLIENT,
                    group.group_id,
                    client_id,
                    f"Member {member.member_id!r} of group {group.group_id} committed {place}, which it does not have.",
                    "It received an assignment without that partition, and had given it up.",
                    (member.since, None if given_up is None else given_up.reported, asked.event, event),
                    key=f"{member.member_id} {place}",
                )
        if not request.member_id or isinstance(event, AnswerSent):
            committed.acknowledged = Acknowledged(offset, asked.event, scene.number) if request.member_id else None

    def _check_direction(
        self, asked: Asked, group: Group, place: TopicPartition, offset: int, committed: Committed, event: Answer
    ) -> None:
        last = committed.acknowledged
        if last is None or last.answered > asked.number or offset >= last.offset:
            return
        self._scene.report(
            Invariant.FORWARD_COMMITS,
            Fault.CLIENT,
            group.group_id,
            asked.event.client_id,
            f"Client {asked.event.client_id!r} committed offset {offset} of {place} for group {group.group_id}, "
            f"although offset {last.offset} was acknowledged before.",
            "Records between these offsets are processed again. If the application seeks back on purpose, "
            "allow it for this group.",
            (last.request, asked.event, event),
            key=str(place),
        )

    def _check_delivery(
        self, asked: Asked, group: Group, member: Member, place: TopicPartition, offset: int, event: Answer
    ) -> None:
        scene, client = self._scene, member.client
        if place.topic in scene.topics.doubtful or not client.is_whole:
            return
        reach = client.reach.get(place)
        if client.fetched is None:
            # It reads elsewhere, but what it found in answers to other requests counts, too.
            others = max((other.reach.get(place, -1) for other in scene.clients.values()), default=-1)
            if others < 0 or offset <= others:
                return
            reach = others
        before = [version.offset for version in group.of(place).versions if version.number < asked.number]
        if offset <= max(-1 if reach is None else reach, *(-1 if known is None else known for known in before), -1):
            return
        upto = "nothing of it" if reach is None else f"it up to offset {reach} only"
        scene.report(
            Invariant.FETCHED_COMMITS,
            Fault.CLIENT,
            group.group_id,
            client.client_id,
            f"Member {member.member_id!r} of group {group.group_id} committed offset {offset} of {place}, "
            f"but connections with its client id were delivered {upto}.",
            "It never received the records that it commits as processed, or only before another member had the "
            "partition. If it gets offsets or records in another way, allow it for this group.",
            (client.fetched, asked.event, event),
            key=str(place),
        )

    # OffsetFetch

    def _found(self, asked: Asked, response: OffsetFetchResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, OffsetFetchRequest)
        if not isinstance(event, AnswerSent):
            return
        client = self._scene.connections[event.connection].client
        for group_id, code, places in _answered_offsets(self._scene, request, response):
            group = self._scene.groups.get(group_id)
            if group is None:
                continue
            members = [m for m in group.members.values() if m.client is client]
            if code:
                for member in members:
                    for place in _asked_places(self._scene, request, group_id):
                        member.failed_positions[place] = event
                continue
            for place, offset, error in places:
                for member in members:
                    if error:
                        member.failed_positions[place] = event
                    else:
                        member.failed_positions.pop(place, None)
                if error:
                    continue
                if offset >= 0 and client is not None:
                    client.learn(place, offset)
                self._check_value(asked, group, place, offset, event)

    def _check_value(self, asked: Asked, group: Group, place: TopicPartition, offset: int, event: AnswerSent) -> None:
        """Check that the offset found is one that the group had since the request arrived."""
        committed = group.committed.get(place)
        if committed is None or not committed.versions or not group.has_records:
            return
        possible: list[Version] = []
        for version in reversed(committed.versions):
            possible.append(version)
            if version.number < asked.number and version.is_acknowledged:
                break
        else:
            return  # nothing was acknowledged, or more commits were made than are remembered
        values = {-1 if version.offset is None else version.offset for version in possible}
        if offset in values or place.topic in self._scene.topics.doubtful:
            return
        self._scene.report(
            Invariant.KEPT_COMMITS,
            Fault.BROKER,
            group.group_id,
            asked.event.client_id,
            f"The coordinator of group {group.group_id} answered offset {offset} for {place}, "
            f"although offset {possible[-1].offset} was acknowledged and not replaced by {offset}.",
            "The coordinator returned a value that it had not stored last.",
            (None if committed.acknowledged is None else committed.acknowledged.request, asked.event, event),
            key=str(place),
        )

    # Deletions

    def _deleted(self, asked: Asked, response: OffsetDeleteResponse, event: Answer) -> None:
        request = asked.event.request
        assert isinstance(request, OffsetDeleteRequest)
        if response.error_code:
            return
        group = self._scene.group(request.group_id, event.broker)
        for topic in response.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    group.committed.pop(TopicPartition(topic.name, partition.partition_index), None)

    def _groups_deleted(self, asked: Asked, response: DeleteGroupsResponse, event: Answer) -> None:
        for result in response.results:
            if not result.error_code:
                self._scene.forget_group(result.group_id)


def _offsets(scene: Scene, request: OffsetCommitRequest) -> dict[TopicPartition, int]:
    found = {}
    for topic in request.topics:
        name = scene.topics.name(topic.name, topic.topic_id)
        if name is not None:
            for partition in topic.partitions:
                found[TopicPartition(name, partition.partition_index)] = partition.committed_offset
    return found


def _answered_offsets(
    scene: Scene, request: OffsetFetchRequest, response: OffsetFetchResponse
) -> Iterator[tuple[str, int, list[tuple[TopicPartition, int, int]]]]:
    """Yield group, error code, and partitions with offset and error code."""
    if not request.groups:
        old = [
            (TopicPartition(topic.name, each.partition_index), each.committed_offset, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        ]
        yield request.group_id, response.error_code, old
    for group in response.groups:
        found = []
        for topics in group.topics:
            name = scene.topics.name(topics.name, topics.topic_id)
            if name is not None:
                for part in topics.partitions:
                    place = TopicPartition(name, part.partition_index)
                    found.append((place, part.committed_offset, part.error_code))
        yield group.group_id, group.error_code, found


def _asked_places(scene: Scene, request: OffsetFetchRequest, group_id: str) -> Iterator[TopicPartition]:
    for topic in request.topics or ():
        yield from (TopicPartition(topic.name, number) for number in topic.partition_indexes)
    for group in request.groups:
        if group.group_id == group_id:
            for topics in group.topics or ():
                name = scene.topics.name(topics.name, topics.topic_id)
                if name is not None:
                    yield from (TopicPartition(name, number) for number in topics.partition_indexes)
