"""Signs of life: one at a time, at the interval, and never beside a request that says as much."""

from kohort.errors import ErrorCode
from kohort.member.any_member import Sent
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import heartbeat_request
from kohort.member.classic.standing import Standing
from kohort.member.phase import Phase
from kohort.model import Millis

_RESTLESS: Millis = 60_000
"""After a generation the next is likely for this long."""
_AT_MOST_EVERY: Millis = 250
"""Least time between two heartbeats of a member that commits often."""
_IN = frozenset({Phase.STABLE, Phase.PREPARING, Phase.ASSIGNING, Phase.LEAVING})


def send_heartbeat_if_due(member: Standing) -> None:
    """Send one when it is time."""
    if not _wanted(member) or not member.link.ready(member.now) or member.now < member.heartbeat_at:
        return
    assert member.generation is not None
    request = heartbeat_request(member.config, member.member_id, member.generation)
    member.heartbeat_request = member.send(request, member.config.heartbeat_timeout_ms)
    member.heartbeat_sent_at = member.now
    member.heartbeat_at = member.now + member.config.heartbeat_interval_ms


def commit_follows_heartbeat(member: Standing) -> None:
    """A commit goes out behind a heartbeat that is not answered, so a coordinator that holds it answers it now.

    Until the next heartbeat the coordinator cannot tell this member of a rebalance, and what a member leaves is not
    read until all others have heard. So the next one goes out soon, in a group that may rebalance again.
    """
    if member.heartbeat_request is not None and member.now - member.assigned_at < _RESTLESS:
        soon = max(member.now, member.heartbeat_sent_at + _AT_MOST_EVERY)
        member.heartbeat_at = min(member.heartbeat_at, soon)


def next_heartbeat_at(member: Standing) -> Millis | None:
    """When the next is due; None while none may be sent."""
    if not _wanted(member) or not member.link.known:
        return None
    return max(member.heartbeat_at, member.link.retry_at)


def heartbeat_answered(member: Standing, request: int, sent: Sent, code: ErrorCode) -> None:
    """The coordinator says whether all is well. During a join or a sync their own answers say more."""
    if request == member.heartbeat_request:
        member.heartbeat_request = None
    if code is ErrorCode.NONE:
        member.link.progressed(member.now)
    elif member.speaks_of_us(sent) and member.phase not in (Phase.JOINING, Phase.SYNCING):
        refused(member, code)


def _wanted(member: Standing) -> bool:
    return (
        member.generation is not None
        and member.heartbeat_request is None
        and member.phase_request is None
        and member.phase in _IN
    )
