"""Heartbeats: one at a time, at the interval, and not while a request with the same effect is in flight."""

from kohort.errors import ErrorCode
from kohort.member.any_member import Sent
from kohort.member.classic.refusals import refused
from kohort.member.classic.requests import heartbeat_request
from kohort.member.classic.state import ClassicState
from kohort.member.phase import Phase
from kohort.model import Millis

_REBALANCE_LIKELY: Millis = 60_000
"""Time after a generation in which another one is likely."""
_MIN_INTERVAL: Millis = 250
"""Minimum time between two heartbeats of a member that commits often."""
_HEARTBEAT_PHASES = frozenset({Phase.STABLE, Phase.PREPARING, Phase.ASSIGNING, Phase.LEAVING})


def send_heartbeat_if_due(member: ClassicState) -> None:
    """Send a heartbeat if it is due."""
    if not _wanted(member) or not member.link.ready(member.now) or member.now < member.heartbeat_at:
        return
    assert member.generation is not None
    request = heartbeat_request(member.config, member.member_id, member.generation)
    member.heartbeat_request = member.send(request, member.config.heartbeat_timeout_ms)
    member.heartbeat_sent_at = member.now
    member.heartbeat_at = member.now + member.config.heartbeat_interval_ms


def commit_follows_heartbeat(member: ClassicState) -> None:
    """Bring the next heartbeat forward, because a commit makes a coordinator answer the held one at once.

    Until the next heartbeat, the coordinator cannot notify this member of a rebalance, and the
    partitions of a member that left have no reader until all others are notified. So the next heartbeat
    is sent soon, in a group that may rebalance again.
    """
    if member.heartbeat_request is not None and member.now - member.assigned_at < _REBALANCE_LIKELY:
        soon = max(member.now, member.heartbeat_sent_at + _MIN_INTERVAL)
        member.heartbeat_at = min(member.heartbeat_at, soon)


def next_heartbeat_at(member: ClassicState) -> Millis | None:
    """Return when the next heartbeat is due; None if none may be sent."""
    if not _wanted(member) or not member.link.known:
        return None
    return max(member.heartbeat_at, member.link.retry_at)


def heartbeat_answered(member: ClassicState, request: int, sent: Sent, code: ErrorCode) -> None:
    """Handle the coordinator's answer. During a join or a sync, the answers to those carry more information."""
    if request == member.heartbeat_request:
        member.heartbeat_request = None
    if code is ErrorCode.NONE:
        member.link.progressed(member.now)
    elif member.is_current(sent) and member.phase not in (Phase.JOINING, Phase.SYNCING):
        refused(member, code)


def _wanted(member: ClassicState) -> bool:
    return (
        member.generation is not None
        and member.heartbeat_request is None
        and member.phase_request is None
        and member.phase in _HEARTBEAT_PHASES
    )
