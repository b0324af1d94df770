"""Rules of what coordinators append to `__consumer_offsets`: generations, epochs, owners and committed offsets.

All of it is the coordinator's own decision, so what is wrong here is the broker's fault; except the assignment
of a classic group, which the leader computes and `classic_rules` checks where it arrives.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kohort.model import UUID, TopicPartition
from kohort.testing.events import Event, RecordsAppended
from kohort.testing.invariants.assignments import CONSUMER, partitions_of
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Group, Holder, StoredMember, Version
from kohort.testing.invariants.violation import Fault, Invariant
from kohort.wire.codec import Message
from kohort.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

Place = tuple[UUID, int]


class RecordRules:
    """Rules of the records of coordinators."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._rules: dict[type[Message], Callable[[RecordsAppended, Any, Any], None]] = {
            OffsetCommitKey: self._offset,
            GroupMetadataKey: self._classic_group,
            ConsumerGroupMetadataKey: self._consumer_group,
            ConsumerGroupMemberMetadataKey: self._member,
            ConsumerGroupCurrentMemberAssignmentKey: self._assignment,
        }
        self._changed: dict[str, set[str]] = {}
        """Members of each group whose partitions this batch changes."""

    def appended(self, event: RecordsAppended) -> None:
        """Check one batch: within it, a group may be between two states."""
        for record in event.records:
            rule = self._rules.get(type(record.key))
            if rule is not None:
                rule(event, record.key, record.value)
        if self._changed:
            changed, self._changed = self._changed, {}
            for group_id, members in changed.items():
                if group_id in self._scene.groups:
                    self._check_owners(self._scene.groups[group_id], members, event)

    def _group(self, event: RecordsAppended, group_id: str) -> Group:
        group = self._scene.group(group_id, event.broker)
        group.has_records, group.partition = True, event.partition
        return group

    # Committed offsets

    def _offset(self, event: RecordsAppended, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        group, place = self._group(event, key.group), TopicPartition(key.topic, key.partition)
        committed = group.of(place)
        committed.versions.append(Version(self._scene.number, None if value is None else value.offset))
        if value is None:
            committed.acknowledged = None
            return
        writers = [asked.note for asked in group.commits.values() if asked.note.offsets.get(place) == value.offset]
        for note in writers:  # which of several equal commits it was makes no difference
            note.written.add(place)
        if not writers:
            committed.acknowledged = None  # a client wrote it whose connection is gone

    # Classic groups

    def _classic_group(self, event: RecordsAppended, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        group = self._group(event, key.group)
        if value is None:
            group.forget_log()
            return
        self._check_epoch(group, value.generation, event, "generation")
        if value.protocol_type == CONSUMER:
            self._check_generation(group, value, event)
        group.generation, group.stored, group.is_consumer = value.generation, event, False
        # Without a leader, a consumer group became a classic one: its members keep what they have, and join later.
        joined = value.members if value.leader is not None else ()
        group.stored_in = frozenset(member.member_id for member in joined)
        group.stored_members.clear()
        group.holders.clear()

    def _check_generation(self, group: Group, value: GroupMetadataValue, event: RecordsAppended) -> None:
        """Check that each partition has one owner, unless the leader is to blame, which `classic_rules` found."""
        plans = [plan for generation, plan, _ in group.plans if generation == value.generation]
        stored = {member.member_id: member.assignment for member in value.members}
        if plans and plans[-1] == stored:
            return
        owners: dict[TopicPartition, str] = {}
        for member_id, assignment in stored.items():
            for place in sorted(partitions_of(assignment) or ()):
                other = owners.setdefault(place, member_id)
                if other != member_id:
                    self._scene.report(
                        Invariant.ONE_OWNER,
                        Fault.BROKER if plans else Fault.UNDECIDED,
                        group.group_id,
                        "",
                        f"Members {other!r} and {member_id!r} of group {group.group_id} both have {place} "
                        f"in generation {value.generation}.",
                        "The leader computed another assignment." if plans else "Its leader's request was not seen.",
                        (event,),
                        key=str(place),
                    )

    # Consumer groups

    def _consumer_group(
        self, event: RecordsAppended, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
    ) -> None:
        group = self._group(event, key.group_id)
        if value is None:
            group.forget_log()
            return
        self._check_epoch(group, value.epoch, event, "group epoch")
        group.generation, group.stored, group.is_consumer = value.epoch, event, True

    def _check_epoch(self, group: Group, epoch: int, event: RecordsAppended, what: str) -> None:
        if group.stored is not None and epoch < group.generation:
            self._blame(
                group,
                Invariant.RISING_EPOCHS,
                f"The {what} of group {group.group_id} fell from {group.generation} to {epoch}.",
                (group.stored, event),
                str(epoch),
            )

    def _member(
        self,
        event: RecordsAppended,
        key: ConsumerGroupMemberMetadataKey,
        value: ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        group = self._group(event, key.group_id)
        if value is None:
            group.instance_ids.pop(key.member_id, None)
        else:
            group.instance_ids[key.member_id] = value.instance_id

    def _assignment(
        self,
        event: RecordsAppended,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        group, member_id = self._group(event, key.group_id), key.member_id
        if value is None:
            group.stored_members.pop(member_id, None)
            return
        before = group.stored_members.get(member_id)
        epoch = value.member_epoch
        if before is not None and 0 < epoch < before.epoch:
            self._blame(
                group,
                Invariant.RISING_EPOCHS,
                f"The epoch of member {member_id!r} of group {group.group_id} fell from {before.epoch} to {epoch}.",
                (before.event, event),
                member_id,
            )
        places = dict(_places(value))
        group.stored_members[member_id] = StoredMember(epoch, places, event)
        self._changed.setdefault(key.group_id, set()).add(member_id)

    def _check_owners(self, group: Group, changed: set[str], event: RecordsAppended) -> None:
        """Check that each partition of the changed members has one owner, and a new owner a later epoch."""
        for member_id in sorted(changed & group.stored_members.keys()):
            stored = group.stored_members[member_id]
            if stored.epoch > group.generation and group.stored is not None:
                self._blame(
                    group,
                    Invariant.RISING_EPOCHS,
                    f"Member {member_id!r} of group {group.group_id} has epoch {stored.epoch}, "
                    f"the group only {group.generation}.",
                    (group.stored, event),
                    member_id,
                )
            is_described, instance_id = member_id in group.instance_ids, group.instance_ids.get(member_id)
            for place in stored.partitions:
                before = group.holders.get(place)
                if before is not None and before.member_id != member_id:
                    self._check_holder(group, place, before, member_id, instance_id, stored, event)
                group.holders[place] = Holder(member_id, is_described, instance_id, stored.epoch, event)

    def _check_holder(
        self,
        group: Group,
        place: Place,
        before: Holder,
        member_id: str,
        instance_id: str | None,
        stored: StoredMember,
        event: RecordsAppended,
    ) -> None:
        other = group.stored_members.get(before.member_id)
        name = f"{self._scene.topics.names.get(place[0], place[0])}-{place[1]}"
        if other is not None and place in other.partitions:
            self._blame(
                group,
                Invariant.ONE_OWNER,
                f"Members {before.member_id!r} and {member_id!r} of group {group.group_id} both have {name}.",
                (other.event, event),
                name,
            )
        elif stored.epoch <= before.epoch and not before.may_return_as(instance_id):
            self._blame(
                group,
                Invariant.ONE_OWNER,
                f"Member {member_id!r} of group {group.group_id} has {name} at epoch {stored.epoch}, "
                f"at which or after which {before.member_id!r} had it.",
                (before.event, event),
                name,
            )

    def _blame(self, group: Group, invariant: Invariant, what: str, events: Iterable[Event | None], key: str) -> None:
        self._scene.report(
            invariant,
            Fault.BROKER,
            group.group_id,
            "",
            what,
            "The coordinator itself stored this in its log.",
            events,
            key=key,
        )


def _places(value: ConsumerGroupCurrentMemberAssignmentValue) -> Iterable[tuple[Place, int]]:
    """Yield the partitions of a member, each with the epoch from which on it has it."""
    for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
        epochs = topic.assignment_epochs
        for index, number in enumerate(topic.partitions):
            yield (topic.topic_id, number), value.member_epoch if epochs is None else epochs[index]
