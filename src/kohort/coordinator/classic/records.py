"""The durable state of a group as records of `__consumer_offsets`."""

from collections.abc import Mapping

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.model import Millis
from kohort.wire.group_log import Record
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def generation_record(group: ClassicGroup, assignment: Mapping[str, bytes], now: Millis) -> Record:
    """Return the record of the group's current generation. Members missing in `assignment` get an empty one."""
    assert group.protocol is not None
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader_id,
        current_state_timestamp=now,
        members=[_member(m, group.protocol, assignment.get(m.member_id, b"")) for m in group.members.values()],
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def empty_generation(group: ClassicGroup, number: int, now: Millis) -> Record:
    """Return the record of a generation without members: of a new group, or of one that all members have left."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=number,
        protocol=None,
        leader=None,
        current_state_timestamp=now,
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def tombstone(group: ClassicGroup) -> Record:
    """Return the tombstone that deletes a group."""
    return Record(GroupMetadataKey(group=group.group_id), None)


def _member(member: Member, protocol: str, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.protocols[protocol],
        assignment=assignment,
    )
