"""Commits with the member epoch; a commit with a stale epoch is sent again with the next one."""

from kohort.errors import ErrorCode
from kohort.member.any_member import Sent
from kohort.member.commits import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ATTEMPTS, commit_request
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.state import ConsumerState
from kohort.member.events import CommitRequested
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.messages.offset_commit import OffsetCommitResponse

_STALE_EPOCH_ATTEMPTS = 20
_MEMBER_ERRORS = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors that concern the member rather than the commit."""


def commit_asked(member: ConsumerState, asked: CommitRequested) -> None:
    """Queue a commit; it fails at once if the member is not in its group."""
    commits = member.commits
    commits.add(asked.commit, asked.offsets, asked.deadline_at)
    if member.generation is None and member.phase is not Phase.UNSUBSCRIBED:
        out = member.phase in (Phase.STALE, Phase.FATAL)
        code = ErrorCode.UNKNOWN_MEMBER_ID if out else ErrorCode.FENCED_MEMBER_EPOCH
        commits.drop(frozenset(asked.offsets), code)


def send_commit_if_possible(member: ConsumerState) -> None:
    """Send the head of the queue, even during a reconciliation."""
    member.actions.settled += member.commits.settled()
    commit = member.commits.head
    if commit is None or member.commits.sent is not None or not member.link.ready(member.now):
        return
    if commit.waits_for_rebalance or member.leave_heartbeat is not None:
        return
    config = member.config
    # Without an epoch, it was requested before the member began to join, for a group without members.
    member_id = "" if member.generation is None else member.member_id
    request = commit_request(commit, config.group_id, member_id, member.generation, config.instance_id)
    member.commits.sent_with(member.send(request))


def commit_answered(member: ConsumerState, request: int, sent: Sent, response: OffsetCommitResponse) -> None:
    """Settle what succeeded and what failed permanently; the rest is sent again."""
    errors = member.commits.answered(request, response)
    if not errors:
        member.link.progressed(member.now)
        return
    commit = member.commits.head
    assert commit is not None
    for partition, code in errors.items():
        if not _may_commit_again(member, code, commit.attempts):
            commit.fail((partition,), code)
    for code in sorted(set(errors.values())):
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            if member.is_current(sent):
                # The answer to a heartbeat contains the epoch for the next attempt.
                member.heartbeat_at = member.now
                commit.waits_for_rebalance = True
        elif code in COORDINATOR_GONE or (code in _MEMBER_ERRORS and _is_current(member, sent)):
            refused(member, code)
        elif code.retriable:
            member.link.back_off(member.now)


def _is_current(member: ConsumerState, sent: Sent) -> bool:
    return sent.generation is not None and member.is_current(sent)


def _may_commit_again(member: ConsumerState, code: ErrorCode, attempts: int) -> bool:
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return member.generation is not None and attempts < _STALE_EPOCH_ATTEMPTS
    if code in UNKNOWN_TOPIC:
        return attempts < UNKNOWN_TOPIC_ATTEMPTS
    return code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
