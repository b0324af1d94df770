"""From a generation to its assignment: the leader computes it, every member gets its part by SyncGroup."""

from collections.abc import Collection

from kohort.assignor import Assignor
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member.callbacks import CallbackKind
from kohort.member.classic.leading import Lead, lead_of
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import sync_request
from kohort.member.classic.standing import Standing
from kohort.member.phase import Phase
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.consumer_protocol import decode_assignment
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.sync_group import SyncGroupRequestAssignment, SyncGroupResponse


def take_lead(member: Standing, assignor: Assignor, response: JoinGroupResponse) -> None:
    """Compute the group's assignment, as soon as the partition counts of all its topics are known."""
    try:
        member.lead = lead_of(assignor, response)
    except DecodeError as problem:
        detail = f"a member's subscription is malformed: {problem}"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    member.heartbeat_at = member.now + member.config.heartbeat_interval_ms
    member.enter(Phase.ASSIGNING)


def assign_if_possible(member: Standing) -> None:
    """The leader's part of SyncGroup."""
    lead = member.lead
    assert lead is not None
    topics = topics_to_watch(member, lead)
    if not topics <= member.asked or not member.link.ready(member.now):
        return
    member.counts = {topic: member.partitions.get(topic) for topic in topics}
    # As Kafka's: a leader without a rack uses what is known of racks, but does not watch it for the others.
    watches = member.config.rack_id is not None and lead.knows_racks
    member.near = racks_of(member, topics) if watches else None
    try:
        shares = lead.shares(member.counts, member.racks)
    except Exception as problem:  # noqa: BLE001  a user's own assignor may fail in any way
        detail = f"the assignor {lead.assignor.name!r} failed: {type(problem).__name__}: {problem}"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    sync(member, shares)


def racks_of(member: Standing, topics: Collection[str]) -> dict[TopicPartition, frozenset[str]]:
    """Where the replicas of these topics are now."""
    return {partition: racks for partition, racks in member.racks.items() if partition.topic in topics}


def topics_to_watch(member: Standing, lead: Lead) -> frozenset[str]:
    """A leader answers for what others subscribed to as well."""
    return lead.topics | member.topics


def sync(member: Standing, shares: list[SyncGroupRequestAssignment]) -> None:
    """Ask for the assignment; the leader brings everybody's."""
    assert member.generation is not None and member.protocol_name is not None
    if not member.is_leader:
        member.counts, member.near = {}, None
    request = sync_request(member.config, member.member_id, member.generation, member.protocol_name, shares)
    member.phase_request = member.send(request, member.config.answer_timeout_ms)
    member.enter(Phase.SYNCING)


def synced(member: Standing, response: SyncGroupResponse) -> None:
    """The assignment is there, or the group went on without it."""
    member.phase_request = None
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        # KAFKA-13891: the generation of the last assignment stays what it was, not the one that failed here.
        member.prepare("the group began to rebalance again before the assignment arrived")
        refused(member, code)
        return
    try:
        assignment = decode_assignment(response.assignment)
    except DecodeError as problem:
        detail = f"the assignment is malformed: {problem}"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    member.link.progressed(member.now)
    _apply(member, frozenset(one for one in assignment.partitions if one.topic in member.joined_topics))


def _apply(member: Standing, assigned: frozenset[TopicPartition]) -> None:
    assert member.generation is not None
    member.last_assignment, member.last_generation = assigned, member.generation
    if member.leave is None:  # who leaves was told to give everything up
        if member.owned - assigned:
            member.callbacks.add(CallbackKind.REVOKE, member.owned - assigned)
        member.callbacks.add(CallbackKind.ASSIGN, assigned - member.owned)
    member.commits.rebalanced()
    # At once: a coordinator that holds heartbeats can tell only a member that has one in flight.
    member.heartbeat_at = member.assigned_at = member.now
    member.enter(Phase.STABLE)
