"""Lines of a transcript: one for each response, event, record and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kohort.coordinator import Effects
from kohort.coordinator.classic.group import ClassicGroup
from kohort.errors import ErrorCode
from kohort.group_events import (
    AssignmentMade,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberGone,
    MemberMoved,
    MemberRefused,
    MemberRejoined,
    OffsetsHeldUp,
    RebalanceStarted,
    TargetRefused,
)
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import decode_assignment
from kohort.wire.messages.delete_groups import DeleteGroupsResponse
from kohort.wire.messages.describe_groups import DescribeGroupsResponse
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupResponse
from kohort.wire.messages.list_groups import ListGroupsResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.offset_delete import OffsetDeleteResponse
from kohort.wire.messages.offset_fetch import OffsetFetchResponse
from kohort.wire.messages.sync_group import SyncGroupResponse


def listing(partitions: Any) -> str:
    """Partitions in order, in brackets."""
    return "[" + " ".join(str(partition) for partition in sorted(partitions)) + "]"


def written(effects: Effects) -> Iterator[str]:
    """Return a line per record that is appended to the log."""
    offsets = []
    for record in effects.records:
        match record.key, record.value:
            case GroupMetadataKey(group=group), None:
                yield f"log: {group} deleted"
            case GroupMetadataKey(group=group), GroupMetadataValue() as value:
                members = " ".join(member.member_id for member in value.members)
                yield f"log: {group} generation {value.generation} [{members}]"
            case OffsetCommitKey() as key, value:
                offset = "deleted" if value is None else _committed(value)
                offsets.append(f"{key.topic}-{key.partition}={offset}")
    if offsets:
        yield f"log: offsets {' '.join(offsets)}"


def state(group: ClassicGroup) -> str:
    """One group in a line."""
    words = [f"state: {group.group_id} {group.state.value} generation={group.generation}"]
    if group.protocol:
        words.append(group.protocol)
    if group.leader_id:
        words.append(f"leader={group.leader_id}")
    words.append(f"members=[{' '.join(group.members)}]")
    if group.pending:
        words.append(f"pending=[{' '.join(group.pending)}]")
    return " ".join(words)


def event(told: GroupEvent) -> str:
    """Return a line per event for the recorder."""
    match told:
        case RebalanceStarted():
            who = f" ({told.member_id})" if told.member_id else ""
            reason = f": {told.reason}" if told.reason else ""
            return f"rebalance after generation {told.generation}, {told.cause.value}{who}{reason}"
        case MemberRejoined():
            owned = "gave up all" if told.owned is None else f"keeps {listing(told.owned)}"
            return f"{told.member.member_id} joins and {owned}"
        case MemberGone():
            reason = f": {told.reason}" if told.reason else ""
            return f"{told.member.member_id} is gone, {told.cause.value}{reason}"
        case AssignmentMade():
            shares = " ".join(f"{member}={listing(share)}" for member, share in told.assignment.items())
            return f"generation {told.generation} assigned {shares or 'to nobody'}"
        case GroupEpochBumped():
            who = f" ({told.member_id})" if told.member_id else ""
            return f"epoch {told.epoch} for {told.cause.value}{who}"
        case MemberCame():
            return f"{told.member.member_id} comes"
        case MemberMoved():
            steps = {"owes": told.owes, "gave up": told.gave_up, "took": told.took}
            return f"{told.member.member_id} {', '.join(f'{step} {listing(p)}' for step, p in steps.items() if p)}"
        case GroupSettled():
            return f"settled at epoch {told.epoch}"
        case MemberRefused():
            who = told.member.member_id or told.member.client_id
            return f"{who} is refused, {told.code}: {told.reason}"
        case OffsetsHeldUp():
            what = f"{listing(told.partitions)} of {told.transactional_id} producer={told.producer_id}"
            return f"members wait for {what}" if told.end is None else f"members waited for {what}, {told.end.value}"
        case TargetRefused():
            return f"target of epoch {told.epoch} refused: {told.refused.reason}"


def reply(response: Message) -> Iterator[str]:
    """One answer in a line, or a few."""
    match response:
        case JoinGroupResponse(error_code=0):
            words = [f"joined generation {response.generation_id} as {response.member_id}"]
            words.append(f"protocol={response.protocol_name} leader={response.leader}")
            if response.members:
                words.append(f"members=[{' '.join(member.member_id for member in response.members)}]")
            if response.skip_assignment:
                words.append("skip_assignment")
            yield " ".join(words)
        case JoinGroupResponse():
            yield f"join: {_error(response.error_code)} member={response.member_id!r}"
        case SyncGroupResponse(error_code=0):
            yield f"synced {listing(decode_assignment(response.assignment).partitions)}"
        case SyncGroupResponse():
            yield f"sync: {_error(response.error_code)}"
        case HeartbeatResponse():
            yield f"heartbeat: {_error(response.error_code)}"
        case LeaveGroupResponse():
            errors = [response.error_code, *(member.error_code for member in response.members)]
            yield f"leave: {' '.join(map(_error, errors[1:] or errors))}"
        case OffsetCommitResponse():
            codes = [
                f"{t.name}-{p.partition_index} {_error(p.error_code)}" for t in response.topics for p in t.partitions
            ]
            yield f"commit: {', '.join(codes)}"
        case OffsetFetchResponse():
            topics: list[Any] = [topic for group in response.groups for topic in group.topics] or response.topics
            found = [f"{t.name}-{p.partition_index}={_position(p)}" for t in topics for p in t.partitions]
            found += [_error(group.error_code) for group in response.groups if group.error_code]
            yield f"fetched {' '.join(found) or 'nothing'}"
        case DescribeGroupsResponse():
            for group in response.groups:
                error = f" {_error(group.error_code)}" if group.error_code else ""
                protocol = f"{group.protocol_type}/{group.protocol_data}"
                yield f"described {group.group_id}: {group.group_state} {protocol}{error}"
                for member in group.members:
                    share = listing(decode_assignment(member.member_assignment).partitions)
                    yield f"  {member.member_id} {member.client_id} {member.client_host} {share}"
        case ListGroupsResponse():
            groups = [f"{group.group_id}:{group.group_state}:{group.protocol_type}" for group in response.groups]
            yield f"listed {' '.join(groups) or 'none'}"
        case DeleteGroupsResponse():
            yield f"delete: {' '.join(f'{r.group_id} {_error(r.error_code)}' for r in response.results)}"
        case OffsetDeleteResponse():
            codes = [
                f"{t.name}-{p.partition_index} {_error(p.error_code)}" for t in response.topics for p in t.partitions
            ]
            yield f"delete-offsets: {', '.join(codes) or _error(response.error_code)}"
        case _:
            raise AssertionError(response)


def _codes(topics: Any) -> str:
    return ", ".join(f"{t.name}-{p.partition_index} {_error(p.error_code)}" for t in topics for p in t.partitions)


def _error(code: int) -> str:
    return "ok" if code == 0 else ErrorCode(code).name


def _committed(value: Message) -> str:
    assert isinstance(value, OffsetCommitValue)
    return str(value.offset)


def _position(found: Any) -> str:
    metadata = f"({found.metadata})" if found.metadata else ""
    epoch = f"@{found.committed_leader_epoch}" if found.committed_leader_epoch >= 0 else ""
    error = _error(found.error_code) if found.error_code else ""
    return f"{found.committed_offset}{epoch}{metadata}{error}"
