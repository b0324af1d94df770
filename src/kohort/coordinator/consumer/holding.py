"""Which heartbeats of a consumer group's members are held, and how soon a member is to send its next one.

The members obey the interval in each answer. A client that sleeps while its heartbeat is held (`ClientKind.sleeps`) is
told a short one, because the hold sets the pace: its member is hardly ever without a heartbeat that can be answered.
Any other is held until shortly before the interval is over that it was told, so when a commit has cut a hold short it
is without one until then: in a group that has just changed, and may soon again, that interval is brisk. A member that
was told to give up or take something is never held: it cannot acknowledge while a heartbeat of it is under way.
"""

from __future__ import annotations

from copy import copy
from zlib import crc32

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import JOINING, ConsumerMember
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.target import due_at
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.holds import PLAIN_AFTER, Held, Pace, Place
from kohort.coordinator.timers import HoldsEnd, TargetDue
from kohort.model import Millis
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_SHORT: Millis = 50
"""A client that sleeps during a hold is to send the next heartbeat so soon after the last was answered."""
_BRISK: Millis = 250
"""Any other, in a small group that has just changed; each member of a large one adds half a millisecond."""
_SOON: Millis = 100
_A_MOMENT: Millis = 2_000
"""Any other so soon after a change: more than one step of a member may follow, and changes come in crowds. The Java
client cannot send one sooner than retry.backoff.ms (100) after an answer."""
_AT_ONCE: Millis = 10
"""Any other that has nothing and waits for what others were just told to give up; ever longer, the longer it takes. The
thread of a Java application in which callbacks run has no records to wake it yet: it looks for them when the next
heartbeat is due."""
_AWAKE: Millis = 100
"""So long a heartbeat of such a member is held, for once, though by then its client no longer sleeps: answered, it
would be out of reach for as long."""
_LEAST_SPARE: Millis = 10
_MOST_SPARE: Millis = 100
"""A hold ends so much before the interval does, and its member cannot be told anything; between these, a part of it."""
_SPARE_PART = 25
_AFTER_A_COMMIT: Millis = 50
_SOON_AFTER: Millis = 500
"""Where a client's heartbeats are to come, and may come, between two of its commits."""
_RESTLESS: Millis = 30_000
"""After a target of a group the next is likely for so long, and for a time between none and as much again, other for
each member: so that not all go back to the usual interval, and are without a heartbeat meanwhile, at once."""
_AT_MOST_EVERY: Millis = 1_000
"""A member whose other requests release its heartbeats sends one in so much time, however many requests it sends. One
that sleeps while it is held does so sooner in a group that has just changed, as any other does: see `_BRISK`."""
_PATIENCE = 4
"""So many heartbeats of a member are answered at once while its acknowledgement is awaited; a client may send none."""


def hold_ms(groups: Groups, group_id: str, member_id: str) -> Millis:
    """How long a heartbeat is held: as long as the member would else wait, so that requests do not become more."""
    settings = groups.settings(group_id)
    longest = min(groups.config.heartbeat_hold_ms, settings.session_timeout_ms // 3)
    if (group_id, member_id) in groups.holds.sleepers:
        return min(longest, settings.heartbeat_interval_ms)
    pace = groups.holds.paces.get((group_id, member_id))
    told = settings.heartbeat_interval_ms if pace is None or not pace.told_ms else pace.told_ms
    if told == _AT_ONCE:
        return min(longest, _AWAKE)
    return max(0, min(longest, told - min(max(told // _SPARE_PART, _LEAST_SPARE), _MOST_SPARE)))


def _next_interval(
    groups: Groups, group_id: str, member_id: str, now: Millis, *, waits: bool, changes: bool = False
) -> Millis:
    """When a member is to send its next heartbeat that has nothing to acknowledge.

    `waits`: for what others have. `changes`: what it is answered is not on record yet.
    """
    usual = groups.settings(group_id).heartbeat_interval_ms
    if (group_id, member_id) in groups.holds.sleepers:
        return min(_SHORT, usual)
    group = groups.consumer(group_id)
    if group is None or not (changes or _is_restless(group, member_id, now)):
        pace = groups.holds.paces.get((group_id, member_id))
        return usual if pace is None else max(usual, pace.told_ms)
    elapsed = 0 if changes else abs(now - group.target_at)
    brisk = _SOON if elapsed < _A_MOMENT else _BRISK
    if waits:
        brisk = min(brisk, max(_AT_ONCE, elapsed // 2))
    return min(usual, max(brisk, len(group.members) // 2))


def _until_it_acknowledges(groups: Groups, group_id: str, member_id: str, pace: Pace) -> Millis:
    """Ever more rarely, so that one that takes its time does not ask all the time whether it may."""
    usual, group = groups.settings(group_id).heartbeat_interval_ms, groups.consumer(group_id)
    first = _SHORT if (group_id, member_id) in groups.holds.sleepers else _SOON
    first = max(first, 0 if group is None else len(group.members) // 2)
    return min(first << min(max(pace.owing - 1, 0), 16), usual)


def _is_restless(group: ConsumerGroup, member_id: str, now: Millis) -> bool:
    if group.epoch > group.target_epoch:
        return True
    return abs(now - group.target_at) < _RESTLESS + crc32(member_id.encode()) % _RESTLESS


def _tell_interval(
    groups: Groups, group_id: str, response: ConsumerGroupHeartbeatResponse, interval_ms: Millis
) -> None:
    """Say when the next heartbeat is to come, and remember it for as long as it is not the usual one."""
    usual, member_id = groups.settings(group_id).heartbeat_interval_ms, response.member_id or ""
    response.heartbeat_interval_ms = interval_ms
    if (group_id, member_id) not in groups.holds.sleepers:
        if interval_ms != usual:
            groups.holds.pace(group_id, member_id).told_ms = interval_ms
        elif (pace := groups.holds.paces.get((group_id, member_id))) is not None:
            pace.told_ms = 0


def may_be_held(groups: Groups, group_id: str, member_id: str) -> bool:
    """Whether the member owes no acknowledgement, and its client lives with held heartbeats."""
    if not groups.config.heartbeat_hold_ms:
        return False
    pace = groups.holds.paces.get((group_id, member_id))
    return pace is None or (pace.owing == 0 and pace.strikes < PLAIN_AFTER)


def answer_or_hold(
    groups: Groups,
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    response: ConsumerGroupHeartbeatResponse,
    now: Millis,
    out: Effects,
    again: Held | None = None,
    *,
    repeats_offers: bool = False,
) -> None:
    """Answer a heartbeat, or hold it where the answer says nothing; `again` where it was held until now.

    `repeats_offers`: all that it says is by what its member can compute, and that was answered before.
    """
    out.replies[context.token] = response
    if not context.may_hold or not groups.config.heartbeat_hold_ms or response.error_code or request.member_epoch < 0:
        return
    group_id, member_id = request.group_id, response.member_id or ""
    if context.client.sleeps:
        groups.holds.sleepers.add((group_id, member_id))
    pace = groups.holds.pace(group_id, member_id)
    _count(pace, request, response, acknowledges_nothing=context.client.sleeps)
    if context.client is ClientKind.JAVA and request.topic_partitions == []:
        request = _without_report(request)
    group = groups.consumer(group_id)
    silent = not out.records and (repeats_offers or is_silent(request)) and not _says_anything(response)
    member = None if group is None else group.members.get(member_id)
    owes = member is not None and member.state is MemberState.UNREVOKED_PARTITIONS
    if pace.owing > _PATIENCE and not owes:
        pace.owing = 0
    # What it was just told is not on record yet: one that hears of another epoch alone may have to wait, too.
    waits = _is_empty(response) or request.member_epoch != response.member_epoch
    waits |= member is not None and member.state is MemberState.UNRELEASED_PARTITIONS
    interval = _next_interval(groups, group_id, member_id, now, waits=waits, changes=bool(out.records))
    if pace.strikes >= PLAIN_AFTER:
        interval = groups.settings(group_id).heartbeat_interval_ms
    elif pace.owing or owes:
        interval = _until_it_acknowledges(groups, group_id, member_id, pace)
    elif (
        group is not None
        and member is not None
        and silent
        and request.member_epoch == response.member_epoch
        and (hold := hold_ms(groups, group_id, member_id)) > 0
    ):
        del out.replies[context.token]
        _give_up_earlier(groups, member, request, out)
        since, until = (now, now + hold) if again is None else (again.since, again.until)
        places = waits_for(group, member)
        _hold(groups, group, Held(context.token, request, context.api_version, since, until, places), now, out)
        groups.holds.forget_pace(group_id, member_id)
        return
    _tell_interval(groups, group_id, response, interval)
    groups.holds.forget_pace(group_id, member_id)


def _count(
    pace: Pace,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
    *,
    acknowledges_nothing: bool,
) -> None:
    """Which answer this is before the member's acknowledgement, if it owes one.

    `acknowledges_nothing`: its client does so even of an empty assignment, as one gets that joins and has to wait; the
    Java client waits then for the next news.
    """
    if request.topic_partitions is not None:
        pace.owing = 0
    if _is_empty(response) and request.member_epoch == JOINING and not acknowledges_nothing:
        return
    if response.assignment is not None or response.computation is not None:
        pace.owing = 1
    elif pace.owing:
        pace.owing += 1


def _without_report(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    """The acknowledgement of a member that has nothing yet. It may be held: the Java client waits for no answer to it.

    One that has won something asks next where to begin, which would cut the hold short.
    """
    silent = copy(request)
    silent.topic_partitions = None
    return silent


def _is_empty(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None and not response.assignment.topic_partitions


def _hold(groups: Groups, group: ConsumerGroup, held: Held, now: Millis, out: Effects) -> None:
    if groups.holds.add(held):
        out.timers[HoldsEnd()] = groups.holds.ends_at
    if group.epoch > group.target_epoch:
        # Nobody else may come to have it computed. Where a member is at it, nothing is due before it must be done.
        due = max(due_at(groups, group), group.computing.awaited_until(group))
        out.timers[TargetDue(group.group_id)] = max(now, due)


def hold_quietly(groups: Groups, request: ConsumerGroupHeartbeatRequest, token: object, now: Millis) -> Held | None:
    """Hold a heartbeat for which there is no news, without Effects; None where it needs some, or is not to be held."""
    holds, group_id, member_id = groups.holds, request.group_id, request.member_id
    if not may_be_held(groups, group_id, member_id) or holds.holds(group_id, member_id):
        return None
    hold = hold_ms(groups, group_id, member_id)
    if not hold:
        return None
    held = Held(token, request, 0, now, now + hold)
    holds.add(held)
    return held


def _give_up_earlier(
    groups: Groups, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, out: Effects
) -> None:
    """An older heartbeat of the member is on a connection that its client has left, or it would not send another."""
    earlier = groups.holds.by_group.get(request.group_id, {}).get(member.member_id)
    if earlier is not None:
        groups.holds.drop(earlier)
        out.replies[earlier.token] = served_plainly(groups, member, earlier)


def hears_last(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether all that a held member could be told now is another epoch, while others still have to move.

    Told at once, it would be without a heartbeat for a moment, in which what comes next would not reach it; and all
    would hear at the very time at which some have to move quickly.
    """
    others = len(group.moving) - (member.member_id in group.moving)
    if not others or group.epoch > group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return False
    target = group.target_of(member.member_id)
    missing = target - member.assigned
    return not member.assigned - target and group.taken(missing) == missing


def waits_for(group: ConsumerGroup, member: ConsumerMember) -> list[Place]:
    """What somebody has to give up before the member can have it."""
    return [(group.group_id, topic_id, n) for topic_id, n in group.target_of(member.member_id) - member.assigned]


def held_for_nothing(
    groups: Groups, member: ConsumerMember, held: Held, now: Millis, *, released: bool
) -> ConsumerGroupHeartbeatResponse:
    """The answer at the end of a hold, or when another request of the member cut it short."""
    group_id, member_id = held.request.group_id, member.member_id
    waits = member.state is MemberState.UNRELEASED_PARTITIONS
    interval = _next_interval(groups, group_id, member_id, now, waits=waits)
    usual = groups.settings(group_id).heartbeat_interval_ms
    if released and (group_id, member_id) in groups.holds.sleepers:
        interval = min(usual, max(interval, _least_gap(groups, group_id, member_id, now) - (now - held.since)))
    elif released:
        between = _between_commits(groups.holds.pace(group_id, member_id), held, usual, now)
        interval = between if interval >= usual else interval
    response = _nothing_new(member, held, interval)
    _tell_interval(groups, group_id, response, interval)
    groups.holds.forget_pace(group_id, member_id)
    return response


def _least_gap(groups: Groups, group_id: str, member_id: str, now: Millis) -> Millis:
    """The least time between two heartbeats of a member whose other requests release them."""
    group = groups.consumer(group_id)
    if group is None or not _is_restless(group, member_id, now):
        return _AT_MOST_EVERY
    return min(_AT_MOST_EVERY, max(_BRISK, len(group.members) // 2))


def _between_commits(pace: Pace, held: Held, usual: Millis, now: Millis) -> Millis:
    """The interval for a member of a quiet group that commits about as often as it sends heartbeats.

    A commit costs the rest of a hold, so its heartbeats are to come just after its commits. The client's timer begins
    anew when it is told another interval: so it is told how long it takes to its next commit and a little more, and
    keeps that for as long as its heartbeats come soon after commits. Its next alone comes late for it.
    """
    told, passed = max(usual, pace.told_ms), now - pace.released_at
    known, pace.released_at = pace.released_at > 0, now
    period = passed // max(1, round(passed / usual))  # a commit that found nothing held was not seen
    if not known or passed > 3 * usual or not usual * 19 // 20 <= period <= usual * 3 // 2:
        return told
    if 0 <= held.since - (now - period) <= _SOON_AFTER:
        return told
    wanted = period + _AFTER_A_COMMIT
    return wanted if wanted != told else wanted + 1


def served_plainly(groups: Groups, member: ConsumerMember, held: Held) -> ConsumerGroupHeartbeatResponse:
    """The answer where members that share a connection release each other, or their client has left the connection."""
    return _nothing_new(member, held, groups.settings(held.request.group_id).heartbeat_interval_ms)


def _nothing_new(member: ConsumerMember, held: Held, interval_ms: Millis) -> ConsumerGroupHeartbeatResponse:
    request = held.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        takes_offers=request.offered_assignors is not None,
    )


def is_silent(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat leaves out all that it may leave out."""
    return request.offered_assignors is None and says_at_most_offers(request)


def says_at_most_offers(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether it leaves out all but by what its member can compute, which every heartbeat of such a member says."""
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.computed is None
        and request.asks_anew is None
        and request.weight == -1
    )


def _says_anything(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None or response.computation is not None or response.refused is not None
