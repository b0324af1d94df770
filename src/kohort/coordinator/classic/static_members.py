"""Takeover by a static member that was restarted (KIP-345)."""

from copy import copy

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.records import generation_record
from kohort.coordinator.classic.replies import join_refused, sync_refused
from kohort.coordinator.classic.sync import assignment_made
from kohort.coordinator.effects import Effects
from kohort.coordinator.timers import SessionTimeout
from kohort.errors import ErrorCode
from kohort.group_events import Cause, MemberGone
from kohort.model import Millis
from kohort.wire.group_log import Record
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def fence(groups: ClassicGroups, group: ClassicGroup, old_id: str, out: Effects) -> None:
    """Reject parked requests under the old ID: only one member may hold an instance ID (KAFKA-8500).

    A held heartbeat is answered too, so that a process that still lives stops before it processes more of
    the partitions that the new member has.
    """
    old = group.members[old_id]
    rebalance = group.rebalance
    parked_join = rebalance.joining.pop(old_id, None)
    if parked_join is not None:
        refused = join_refused(ErrorCode.FENCED_INSTANCE_ID, old_id, parked_join.api_version)
        groups.answer(parked_join, refused, out)
    groups.answer(rebalance.syncing.pop(old_id, None), sync_refused(ErrorCode.FENCED_INSTANCE_ID), out)
    rebalance.sync_due.discard(old_id)
    if groups.prompt is not None:
        groups.prompt.news_for_member(group.group_id, old_id)
    out.timers[SessionTimeout(group.group_id, old_id)] = None
    out.events.append(MemberGone(group.group_id, old.facts, Cause.STATIC_MEMBER_RETURNED, None, old.last_heard))


def take_over(group: ClassicGroup, now: Millis, out: Effects) -> None:
    """Give the old incarnation's assignment to the new one without a rebalance.

    The new ID is recorded; otherwise a failover would fence the living member (KAFKA-10284).
    """
    assignment = {member.member_id: member.assignment for member in group.members.values()}
    out.records.append(generation_record(group, assignment, now))
    out.events.append(assignment_made(group, assignment))


def keep_new_id(group: ClassicGroup, instance_id: str, new_id: str, out: Effects) -> None:
    """Record the new ID in the last generation, if it has the instance, while the next one is formed.

    The member receives its ID before the next generation is recorded. After a failover in between,
    the group would know the instance only by its old ID, even if it had removed it, and fence the
    living member forever. This is KAFKA-10284 in a rebalance.
    """
    last = _last_written(group, out)
    if last is None or all(stored.group_instance_id != instance_id for stored in last.members):
        return
    stored = copy(last)
    member = group.members.get(new_id)
    stored.members = [
        _renamed(stored, new_id, member) if stored.group_instance_id == instance_id else stored
        for stored in last.members
    ]
    led = any(stored.group_instance_id == instance_id and stored.member_id == last.leader for stored in last.members)
    stored.leader = new_id if led else last.leader
    out.records.append(Record(GroupMetadataKey(group=group.group_id), stored))


def _last_written(group: ClassicGroup, out: Effects) -> GroupMetadataValue | None:
    """Return the last generation, which may be in `out` if the group was a consumer group until now."""
    for record in reversed(out.records):
        if isinstance(record.value, GroupMetadataValue) and record.key == GroupMetadataKey(group=group.group_id):
            return record.value
    return group.stored


def _renamed(stored: MemberMetadata, new_id: str, member: Member | None) -> MemberMetadata:
    renamed = copy(stored)
    renamed.member_id = new_id
    if member is not None:
        renamed.client_id, renamed.client_host = member.client_id, member.client_host
    return renamed
