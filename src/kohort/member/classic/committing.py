"""When commits are sent, and which of their errors are retried. The queue itself is in `commits`."""

from kohort.errors import ErrorCode
from kohort.member.any_member import Sent
from kohort.member.classic.heartbeats import commit_follows_heartbeat
from kohort.member.classic.phases import IN_REBALANCE
from kohort.member.classic.refusals import refused
from kohort.member.classic.state import ClassicState
from kohort.member.commits import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ATTEMPTS, commit_request
from kohort.member.events import CommitRequested
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.messages.offset_commit import OffsetCommitResponse

_RETRY = COORDINATOR_GONE | UNKNOWN_TOPIC | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
_MEMBER_ERRORS = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""Errors that concern the member rather than the commit."""
_BETWEEN_GENERATIONS = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


def commit_asked(member: ClassicState, asked: CommitRequested) -> None:
    """Queue a commit, without the partitions that the member may not commit."""
    commits = member.commits
    commits.add(asked.commit, asked.offsets, asked.deadline_at)
    partitions = frozenset(asked.offsets)
    if member.phase in (Phase.STALE, Phase.FATAL):
        commits.drop(partitions, ErrorCode.UNKNOWN_MEMBER_ID)
    elif member.phase is not Phase.UNSUBSCRIBED and member.generation is None:
        commits.drop(partitions, ErrorCode.ILLEGAL_GENERATION)
    elif member.phase in IN_REBALANCE:
        # Partitions that the member keeps can be committed after the rebalance; the others have new owners by then.
        commits.drop(partitions - member.owned, ErrorCode.REBALANCE_IN_PROGRESS)


def send_commit_if_possible(member: ClassicState) -> None:
    """Send the head of the queue, unless a rebalance or a LeaveGroup prevents it."""
    member.actions.settled += member.commits.settled()
    commit = member.commits.head
    if commit is None or member.commits.sent is not None or not member.link.ready(member.now):
        return
    if commit.waits_for_rebalance and member.phase is not Phase.STABLE:
        return
    if member.phase in IN_REBALANCE and not (member.phase is Phase.JOINING and member.leave is not None):
        return
    if member.phase is Phase.LEAVING and member.phase_request is not None:
        return
    config = member.config
    # Without a generation, it was requested before the member began to join, for a group without members.
    request = commit_request(commit, config.group_id, member.member_id, member.generation, config.instance_id)
    member.commits.sent_with(member.send(request))
    commit_follows_heartbeat(member)


def commit_answered(member: ClassicState, request: int, sent: Sent, response: OffsetCommitResponse) -> None:
    """Settle what succeeded and what failed permanently; the rest is sent again."""
    errors = member.commits.answered(request, response)
    if not errors:
        member.link.progressed(member.now)
        return
    commit = member.commits.head
    assert commit is not None
    again: set[ErrorCode] = set()
    for partition, code in errors.items():
        if _may_commit_again(member, sent, code, commit.attempts):
            again.add(code)
            commit.waits_for_rebalance |= code is ErrorCode.REBALANCE_IN_PROGRESS or _is_retried_after_rebalance(
                member, code
            )
        else:
            commit.fail((partition,), code)
    for code in sorted(again | (set(errors.values()) & _MEMBER_ERRORS)):
        if _is_retried_after_rebalance(member, code):
            continue
        if code in _RETRY and code not in COORDINATOR_GONE:
            member.link.back_off(member.now)
        elif code in COORDINATOR_GONE or (sent.generation is not None and member.is_current(sent)):
            if code is ErrorCode.UNKNOWN_MEMBER_ID and member.config.instance_id is not None:
                _join_again_as_itself(member)
            else:
                refused(member, code)


def _join_again_as_itself(member: ClassicState) -> None:
    """Lose the generation, but not the member ID, so that the answer to JoinGroup says whether the member is fenced.

    In a consumer group, a coordinator does not compare the instance ID of a commit: a member that another one has
    replaced gets UNKNOWN_MEMBER_ID. If it joined as a new one, as Java's does, the two would replace each other
    forever.
    """
    member.lose_generation("the coordinator does not know the member")


def _may_commit_again(member: ClassicState, sent: Sent, code: ErrorCode, attempts: int) -> bool:
    if code in UNKNOWN_TOPIC:
        return attempts < UNKNOWN_TOPIC_ATTEMPTS
    if code in _RETRY or _is_retried_after_rebalance(member, code):
        return True
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        # A callback waits for this commit, and the rebalance for the callback.
        return member.callbacks.only_assigning
    # KAFKA-8104: refused under an earlier identity; partitions still owned can be committed under the current one.
    return code in _MEMBER_ERRORS and member.generation is not None and not member.is_current(sent)


def _is_retried_after_rebalance(member: ClassicState, code: ErrorCode) -> bool:
    """Return whether the error only means that the rebalance continues in which the member leaves."""
    return member.leave is not None and member.phase in IN_REBALANCE and code in _BETWEEN_GENERATIONS
