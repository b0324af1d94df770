"""From a generation to its assignment: the leader computes it, and every member gets its share by SyncGroup."""

from collections.abc import Collection

from kohort.assignor import Assignor
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member.callbacks import CallbackKind
from kohort.member.classic.leading import Lead, lead_of
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import sync_request
from kohort.member.classic.state import ClassicState
from kohort.member.phase import Phase
from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import decode_assignment
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.sync_group import SyncGroupRequestAssignment, SyncGroupResponse


def become_leader(member: ClassicState, assignor: Assignor, response: JoinGroupResponse) -> None:
    """Become the leader, which computes the assignment when the partition counts of all topics are known."""
    try:
        member.lead = lead_of(assignor, response)
    except DecodeError as problem:
        detail = f"a member's subscription is malformed: {problem}"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    member.heartbeat_at = member.now + member.config.heartbeat_interval_ms
    member.enter(Phase.ASSIGNING)


def assign_if_possible(member: ClassicState) -> None:
    """Compute the group's assignment and send it with SyncGroup, if the metadata is complete."""
    lead = member.lead
    assert lead is not None
    topics = topics_to_watch(member, lead)
    if not topics <= member.asked or not member.link.ready(member.now):
        return
    member.counts = {topic: member.partitions.get(topic) for topic in topics}
    # As in Kafka, a leader without a rack uses known racks, but does not watch them for the other members.
    watches = member.config.rack_id is not None and lead.knows_racks
    member.assigned_racks = racks_of(member, topics) if watches else None
    if lead.skip_assignment:
        # KIP-814: a static leader returned, and the group keeps its assignment; the leader still watches the topics.
        sync(member, [])
        return
    try:
        given = lead.assign(member.counts, member.racks)
        shares, fault = lead.encoded(given), lead.fault(member.counts, given)
    except Exception as problem:  # noqa: BLE001  a user's own assignor may fail in any way
        detail = f"the assignor {lead.assignor.name!r} failed: {type(problem).__name__}: {problem}"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    if fault is not None:
        member.actions.warning = f"the assignor {lead.assignor.name!r} is wrong: {fault}"
    sync(member, shares)


def racks_of(member: ClassicState, topics: Collection[str]) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks of the replicas of these topics' partitions."""
    return {partition: racks for partition, racks in member.racks.items() if partition.topic in topics}


def topics_to_watch(member: ClassicState, lead: Lead) -> frozenset[str]:
    """Return the topics to watch: a leader also watches the subscriptions of other members."""
    return lead.topics | member.topics


def sync(member: ClassicState, shares: list[SyncGroupRequestAssignment]) -> None:
    """Send SyncGroup; the leader's request carries the assignments of all members."""
    assert member.generation is not None and member.protocol_name is not None
    if not member.is_leader:
        member.counts, member.assigned_racks = {}, None
    request = sync_request(member.config, member.member_id, member.generation, member.protocol_name, shares)
    member.phase_request = member.send(request, member.config.answer_timeout_ms)
    member.enter(Phase.SYNCING)


def synced(member: ClassicState, response: SyncGroupResponse) -> None:
    """Handle the answer to SyncGroup: the assignment, or an error because the group moved on."""
    member.phase_request = None
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        # KAFKA-13891: keep the generation of the last assignment; the one that failed here does not count.
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
    _apply(
        member, frozenset(partition for partition in assignment.partitions if partition.topic in member.joined_topics)
    )


def _apply(member: ClassicState, assigned: frozenset[TopicPartition]) -> None:
    assert member.generation is not None
    member.last_assignment, member.last_generation = assigned, member.generation
    if member.leave is None:  # a leaving member was told to give up everything
        if member.owned - assigned:
            member.callbacks.add(CallbackKind.REVOKE, member.owned - assigned)
        member.callbacks.add(CallbackKind.ASSIGN, assigned - member.owned)
    member.commits.rebalanced()
    # Send it at once: a coordinator that holds heartbeats can only notify a member with one in flight.
    member.heartbeat_at = member.assigned_at = member.now
    member.enter(Phase.STABLE)
