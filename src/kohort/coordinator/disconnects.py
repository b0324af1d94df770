"""Removal of members that are presumed dead before their session ends.

A process that dies closes its connections long before that, and a test kit decides who is dead.
"""

from kohort.coordinator.classic import ClassicGroup, remove_dead_member
from kohort.coordinator.consumer import remove_members
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Group, Groups
from kohort.coordinator.prompt import USUAL_HEARTBEAT_INTERVAL
from kohort.group_events import Cause, RebalanceReason
from kohort.model import Millis

INFERRED_GRACE = -1
"""Value of group.disconnect.grace.ms for a grace period derived from the member's heartbeat interval."""
SHORT_GRACE: Millis = 1_500
"""Time in which a process that lives has a new connection. Clients wait for up to 1 s before they connect again
(reconnect.backoff.max.ms of Java), after 0.05 to 0.1 s at first."""
_INTERVAL_MIN: Millis = 1_000
_MARGIN: Millis = 1_000
_LATENESS: Millis = 500
"""Time by which a heartbeat may arrive late whose interval the coordinator told the client."""


def grace_ms(groups: Groups, group_id: str, member_id: str) -> Millis | None:
    """Return how long a disconnected member may take to reconnect; None if only its session counts.

    A living member reconnects for its next heartbeat. A static member may be away for its whole session.
    """
    group, configured = groups.get(group_id), groups.config.disconnect_grace_ms
    member = None if group is None else group.members.get(member_id)
    if group is None or member is None or member.instance_id is not None or configured == 0:
        return None
    if configured != INFERRED_GRACE:
        return configured
    if isinstance(group, ClassicGroup):
        classic = group.members[member_id]
        return inferred_grace_ms(classic.heartbeats.interval_ms or USUAL_HEARTBEAT_INTERVAL, classic.session_timeout_ms)
    told = 0 if groups.prompt is None else groups.prompt.told_interval_ms(group_id, member_id)
    return told_grace_ms(max(groups.settings(group_id).heartbeat_interval_ms, told))


def inferred_grace_ms(heartbeat_interval_ms: Millis, session_timeout_ms: Millis | None = None) -> Millis:
    """Return the grace period of a member that sends heartbeats at an interval, or would if none were held."""
    interval = max(heartbeat_interval_ms, _INTERVAL_MIN)
    if session_timeout_ms is not None:
        interval = min(interval, session_timeout_ms // 3)
    return interval * 3 // 2 + _MARGIN


def told_grace_ms(heartbeat_interval_ms: Millis) -> Millis:
    """Return the grace period of a consumer group's member that was told to send heartbeats at an interval."""
    return max(inferred_grace_ms(USUAL_HEARTBEAT_INTERVAL), heartbeat_interval_ms + _LATENESS)


def short_grace_ms(groups: Groups, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
    """Return how long a disconnected member may take to reconnect if its process is very likely gone.

    None if that is not shorter than `grace_ms`, if an operator set the grace period, or if another client than the one
    that joined spoke for the member on the connection that closed.

    - `who`: Host and client ID of that connection.
    """
    grace = grace_ms(groups, group_id, member_id)
    if grace is None:
        return None
    member = groups.by_id[group_id].members[member_id]
    joined_as = member.client_host, member.client_id
    return shortened_grace_ms(grace, groups.config.disconnect_grace_ms, joined_as, who)


def shortened_grace_ms(
    grace: Millis, configured: Millis, joined_as: tuple[str, str], who: tuple[str, str]
) -> Millis | None:
    """Return what is left of a grace period if the member's process is very likely gone; see `short_grace_ms`.

    - `configured`: A value of group.disconnect.grace.ms.
    - `joined_as`: Host and client ID of the client that joined.
    """
    return SHORT_GRACE if configured == INFERRED_GRACE and grace > SHORT_GRACE and joined_as == who else None


def connection_lost(
    groups: Groups, group_id: str, member_id: str, now: Millis, out: Effects, *, closed_at: Millis
) -> None:
    """Remove a member whose connection closed at `closed_at` and that has not reconnected within its grace period."""
    if grace_ms(groups, group_id, member_id) is None:
        return
    why = RebalanceReason(Cause.CONNECTION_LOST, member_id)
    _remove(groups, groups.by_id[group_id], why, now, out, silent_since=closed_at)


def expire_member(groups: Groups, group_id: str, member_id: str, now: Millis, out: Effects) -> None:
    """Remove a member as if its session had expired."""
    group = groups.get(group_id)
    if group is not None and member_id in group.members:
        _remove(groups, group, RebalanceReason(Cause.SESSION_EXPIRED, member_id), now, out)


def _remove(
    groups: Groups,
    group: Group,
    why: RebalanceReason,
    now: Millis,
    out: Effects,
    *,
    silent_since: Millis | None = None,
) -> None:
    member_id = why.member_id
    assert member_id is not None
    if isinstance(group, ClassicGroup):
        remove_dead_member(groups, group, why, now, out, silent_since=silent_since)
    else:
        remove_members(groups, group, [group.members[member_id]], why, now, out, silent_since=silent_since)
