"""Joining a generation: when a member must join, when it may, and the answer of the coordinator."""

from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member.callbacks import Callback, CallbackKind
from kohort.member.classic.leaving import rejoin_if_stale
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import PROTOCOL_TYPE, join_request
from kohort.member.classic.state import ClassicState
from kohort.member.classic.syncing import become_leader, racks_of, sync
from kohort.member.events import MetadataChanged
from kohort.member.phase import Phase
from kohort.wire.messages.join_group import JoinGroupResponse


def metadata_changed(member: ClassicState, told: MetadataChanged) -> None:
    """Record the current metadata of the cluster."""
    member.partitions, member.asked, member.racks = told.partitions, told.asked, told.racks
    member.metadata_compared = False


def callback_done(member: ClassicState, done: Callback) -> None:
    """Rejoin after a stable member gave up partitions: they have no owner until the next assignment (KIP-429)."""
    if member.polled_at is None:
        rejoin_if_stale(member)
    if done.kind is CallbackKind.REVOKE and member.phase is Phase.STABLE:
        member.rejoin = f"gave up {len(done.partitions)} partitions that the assignment moves"


def rejoin_if_needed(member: ClassicState) -> None:
    """Rejoin a stable member if a rejoin was requested, its topics changed, or it led with metadata that changed."""
    if member.phase is not Phase.STABLE or member.leave is not None:
        return
    if member.rejoin is not None:
        member.prepare(member.rejoin)
    elif member.topics != member.joined_topics:
        member.prepare("the subscription changed")
    elif not member.metadata_compared:
        _rejoin_if_metadata_differs(member)


def _rejoin_if_metadata_differs(member: ClassicState) -> None:
    member.metadata_compared = True
    if not member.counts.keys() <= member.asked:
        return
    changed = sorted(topic for topic, count in member.counts.items() if member.partitions.get(topic) != count)
    if changed:
        member.prepare(f"the number of partitions changed: {', '.join(changed)}")
    elif member.assigned_racks is not None and member.assigned_racks != racks_of(member, member.counts):
        member.prepare("replicas moved to other racks")


def join_if_possible(member: ClassicState) -> None:
    """Send JoinGroup once the application has given up partitions as required and their commits were answered."""
    if not member.callbacks.only_assigning or not member.link.ready(member.now) or member.commits.blocks_rejoining:
        return
    request = join_request(
        member.config,
        member.member_id,
        member.topics,
        owned=member.owned,
        last=member.last_assignment,
        generation=member.last_generation,
        reason=member.reason,
    )
    member.commits.drop(member.commits.partitions - member.owned, ErrorCode.REBALANCE_IN_PROGRESS)
    member.joined_topics = member.topics
    member.phase_request = member.send(request, member.config.answer_timeout_ms)
    member.enter(Phase.JOINING)


def joined(member: ClassicState, response: JoinGroupResponse) -> None:
    """Handle the answer to JoinGroup: every member has joined, or this one was refused."""
    member.phase_request = None
    code = error_code(response.error_code)
    if code is ErrorCode.MEMBER_ID_REQUIRED:
        # KIP-394: the first join only hands out an ID, so a client whose answer was lost leaves no ghost member.
        member.member_id = response.member_id
        member.prepare(member.reason)
        return
    if code is not ErrorCode.NONE:
        member.prepare(member.reason)
        refused(member, code)
        return
    assignor = next((assignor for assignor in member.config.assignors if assignor.name == response.protocol_name), None)
    if assignor is None or response.protocol_type not in (None, "", PROTOCOL_TYPE):
        detail = f"the group chose the assignor {response.protocol_name!r}, which this member did not offer"
        member.fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
        return
    member.link.progressed(member.now)
    member.member_id, member.generation = response.member_id, response.generation_id
    member.protocol_name = assignor.name
    member.is_leader = response.leader == response.member_id
    member.lead = None
    if member.is_leader:
        become_leader(member, assignor, response)
    else:
        sync(member, [])
