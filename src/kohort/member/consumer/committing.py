"""Commits carry the member epoch; one that the coordinator finds stale goes out again with the next."""

from kohort.errors import ErrorCode
from kohort.member.any_member import Sent
from kohort.member.commits import ATTEMPTS_AT_UNKNOWN, UNKNOWN_TOPIC, commit_request
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.standing import ConsumerStanding
from kohort.member.events import CommitAsked
from kohort.member.link import COORDINATOR_GONE
from kohort.member.phase import Phase
from kohort.wire.offset_commit import OffsetCommitResponse

_ATTEMPTS_AT_STALE = 20
_OF_THE_MEMBER = frozenset(
    {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""What a refusal says of the member rather than of the commit."""


def commit_asked(member: ConsumerStanding, asked: CommitAsked) -> None:
    """Queue it, unless the group does not count the member."""
    commits = member.commits
    commits.add(asked.commit, asked.offsets, asked.deadline_at)
    if member.generation is None and member.phase is not Phase.UNSUBSCRIBED:
        out = member.phase in (Phase.STALE, Phase.FATAL)
        code = ErrorCode.UNKNOWN_MEMBER_ID if out else ErrorCode.FENCED_MEMBER_EPOCH
        commits.drop(frozenset(asked.offsets), code)


def send_commit_if_possible(member: ConsumerStanding) -> None:
    """The head of the queue goes out, also in the middle of a reconciliation."""
    member.actions.settled += member.commits.settled()
    commit = member.commits.head
    if commit is None or not commit.offsets or member.commits.sent is not None or not member.link.ready(member.now):
        return
    if commit.waits_for_rebalance or member.goodbye is not None:
        return
    config = member.config
    assert member.generation is not None or member.phase is Phase.UNSUBSCRIBED
    member_id = "" if member.generation is None else member.member_id
    request = commit_request(commit, config.group_id, member_id, member.generation, config.instance_id)
    member.commits.sent_with(member.send(request))


def commit_answered(member: ConsumerStanding, request: int, sent: Sent, response: OffsetCommitResponse) -> None:
    """Settle what succeeded and what failed for good; the rest is sent again."""
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
            if member.speaks_of_us(sent):
                # The answer to a heartbeat brings the epoch with which to commit again.
                member.heartbeat_at = member.now
                commit.waits_for_rebalance = True
        elif code in COORDINATOR_GONE or (code in _OF_THE_MEMBER and member.speaks_of_us(sent)):
            refused(member, code)
        elif code.retriable:
            member.link.back_off(member.now)


def _may_commit_again(member: ConsumerStanding, code: ErrorCode, attempts: int) -> bool:
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return member.generation is not None and attempts < _ATTEMPTS_AT_STALE
    if code in UNKNOWN_TOPIC:
        return attempts < ATTEMPTS_AT_UNKNOWN
    return code in COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
