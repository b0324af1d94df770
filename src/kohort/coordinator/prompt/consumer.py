"""Which heartbeats of a consumer group's members are held, and when a member sends its next one.

Members obey the interval in each answer. A client that sleeps while its heartbeat is held
(`ClientKind.sleeps`) gets a short one, because the hold sets the pace: its member almost always has a
heartbeat that can be answered. The heartbeat of any other client is held until shortly before the
interval in its last answer ends. If a commit cuts that hold short, the member has no held heartbeat
until then. So its interval is short in a group that has just changed and may change again soon. A
heartbeat is never held for a member that must acknowledge a change of its partitions, because the
member cannot do so while a heartbeat is in flight.
"""

from __future__ import annotations

from copy import copy
from zlib import crc32

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import JOINING, ConsumerMember
from kohort.coordinator.consumer.states import MemberState
from kohort.coordinator.consumer.target import due_at
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.groups import Groups
from kohort.coordinator.prompt.client_kind import ClientKind
from kohort.coordinator.prompt.holds import PLAIN_AFTER, HeartbeatState, HeldHeartbeat, Place
from kohort.coordinator.timers import HoldsEnd, TargetDue
from kohort.model import Millis
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_SHORT: Millis = 50
"""Interval from an answer to the next heartbeat, for clients that sleep during a hold."""
_BRISK: Millis = 250
"""Interval for other clients in a small group that has just changed; each member adds half a millisecond."""
_SOON: Millis = 100
_A_MOMENT: Millis = 2_000
"""Interval for other clients (`_SOON`) within this time (`_A_MOMENT`) of a change: a member may take more than one
step, and changes often follow each other. The Java client cannot send a heartbeat earlier than retry.backoff.ms
(100) after an answer."""
_AT_ONCE: Millis = 10
"""Minimum interval for other clients without partitions that wait for what others must give up; it grows with the time
that this takes. In a Java application, the thread that runs callbacks has no records yet to wake it: it checks for
callbacks when the next heartbeat is due."""
_AWAKE: Millis = 100
"""Hold for such a member's heartbeat, although its client is awake by then: if it were answered, the member could not
be notified for the same time."""
_LEAST_SPARE: Millis = 10
_MOST_SPARE: Millis = 100
"""Bounds of the time by which a hold ends before the interval does; the member cannot be notified in that time.
Between the bounds, it is the interval divided by `_SPARE_PART`."""
_SPARE_PART = 25
_AFTER_A_COMMIT: Millis = 50
_SOON_AFTER: Millis = 500
"""Window after a client's commit: its next heartbeat should arrive at `_AFTER_A_COMMIT`, and at `_SOON_AFTER` at the
latest."""
_RESTLESS: Millis = 30_000
"""Time after a new target in which another one is likely. Each member adds a different time, from zero to as much
again, so that not all of them return to the usual interval, and have no held heartbeat, at once."""
_AT_MOST_EVERY: Millis = 1_000
"""Minimum time between the heartbeats of a member whose other requests release them, however many requests it sends.
For a client that sleeps during a hold it is shorter in a group that has just changed, as for others: see `_BRISK`."""
_PATIENCE = 4
"""Number of a member's heartbeats that are answered at once while its acknowledgement is awaited; some clients never
send one."""


def hold_ms(groups: Groups, group_id: str, member_id: str) -> Millis:
    """Return how long a heartbeat is held: for the member's usual wait, so that holding adds no requests."""
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
    """Return the interval until a member's next heartbeat if it has nothing to acknowledge.

    `waits`: the member waits for partitions of others. `changes`: its answer is not recorded yet.
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


def _until_it_acknowledges(groups: Groups, group_id: str, member_id: str, pace: HeartbeatState) -> Millis:
    """Return the interval for a member that owes an acknowledgement; it doubles with every answer."""
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
    """Set the interval in the answer, and remember it while it differs from the usual one."""
    usual, member_id = groups.settings(group_id).heartbeat_interval_ms, response.member_id or ""
    response.heartbeat_interval_ms = interval_ms
    if (group_id, member_id) not in groups.holds.sleepers:
        if interval_ms != usual:
            groups.holds.pace(group_id, member_id).told_ms = interval_ms
        elif (pace := groups.holds.paces.get((group_id, member_id))) is not None:
            pace.told_ms = 0


def may_be_held(groups: Groups, group_id: str, member_id: str) -> bool:
    """Return whether the member owes no acknowledgement and its client tolerates held heartbeats."""
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
    again: HeldHeartbeat | None = None,
    *,
    repeats_offers: bool = False,
) -> None:
    """Answer a heartbeat, or hold it if the answer contains no news; `again` is its previous hold, if any.

    `repeats_offers`: the heartbeat contains nothing but the ways in which its member can compute a
    target, which were answered before.
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
    # The answer may not be recorded yet: a member that only gets another epoch may have to wait, too.
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
        _hold(groups, group, HeldHeartbeat(context.token, request, context.api_version, since, until, places), now, out)
        groups.holds.forget_pace(group_id, member_id)
        return
    _tell_interval(groups, group_id, response, interval)
    groups.holds.forget_pace(group_id, member_id)


def _count(
    pace: HeartbeatState,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerGroupHeartbeatResponse,
    *,
    acknowledges_nothing: bool,
) -> None:
    """Update the number of answers since one that the member has to acknowledge.

    `acknowledges_nothing`: the client acknowledges even an empty assignment, which a member gets that
    joins and has to wait. The Java client does not; it waits for the next news.
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
    """Return a member's acknowledgement of no partitions without its report, so that it may be held.

    The Java client does not wait for the answer to it. A member that got partitions next asks for their
    committed offsets, which would cut the hold short.
    """
    silent = copy(request)
    silent.topic_partitions = None
    return silent


def _is_empty(response: ConsumerGroupHeartbeatResponse) -> bool:
    return response.assignment is not None and not response.assignment.topic_partitions


def _hold(groups: Groups, group: ConsumerGroup, held: HeldHeartbeat, now: Millis, out: Effects) -> None:
    if groups.holds.add(held):
        out.timers[HoldsEnd()] = groups.holds.ends_at
    if group.epoch > group.target_epoch:
        # No other request may trigger the computation. If a member computes it, nothing is due before its deadline.
        due = max(due_at(groups, group), group.computing.awaited_until(group))
        out.timers[TargetDue(group.group_id)] = max(now, due)


def hold_quietly(
    groups: Groups, request: ConsumerGroupHeartbeatRequest, token: object, now: Millis
) -> HeldHeartbeat | None:
    """Hold a heartbeat without Effects; return None if there is news, Effects are needed or it may not be held."""
    holds, group_id, member_id = groups.holds, request.group_id, request.member_id
    if not may_be_held(groups, group_id, member_id) or holds.holds(group_id, member_id):
        return None
    hold = hold_ms(groups, group_id, member_id)
    if not hold:
        return None
    held = HeldHeartbeat(token, request, 0, now, now + hold)
    holds.add(held)
    return held


def _give_up_earlier(
    groups: Groups, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, out: Effects
) -> None:
    """Answer an older held heartbeat of the member: its client left that connection, or it would not send another."""
    earlier = groups.holds.by_group.get(request.group_id, {}).get(member.member_id)
    if earlier is not None:
        groups.holds.drop(earlier)
        out.replies[earlier.token] = served_plainly(groups, member, earlier)


def hears_last(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the only news for a held member is another epoch, while other members still have to move.

    If it were answered at once, it would have no held heartbeat for a moment, and the news that follows
    would not reach it. Also, all members would be answered while some of them have to move quickly.
    """
    others = len(group.moving) - (member.member_id in group.moving)
    if not others or group.epoch > group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return False
    target = group.target_of(member.member_id)
    missing = target - member.assigned
    return not member.assigned - target and group.taken(missing) == missing


def waits_for(group: ConsumerGroup, member: ConsumerMember) -> list[Place]:
    """Return the partitions that other members must give up before this one can have them."""
    return [(group.group_id, topic_id, n) for topic_id, n in group.target_of(member.member_id) - member.assigned]


def held_for_nothing(
    groups: Groups, member: ConsumerMember, held: HeldHeartbeat, now: Millis, *, released: bool
) -> ConsumerGroupHeartbeatResponse:
    """Return the answer at the end of a hold, or when another request of the member cut it short."""
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
    """Return the minimum time between two heartbeats of a member whose other requests release them."""
    group = groups.consumer(group_id)
    if group is None or not _is_restless(group, member_id, now):
        return _AT_MOST_EVERY
    return min(_AT_MOST_EVERY, max(_BRISK, len(group.members) // 2))


def _between_commits(pace: HeartbeatState, held: HeldHeartbeat, usual: Millis, now: Millis) -> Millis:
    """Return the interval for a member of a stable group that commits about as often as it sends heartbeats.

    A commit ends a hold, so the member's heartbeats should arrive just after its commits. The
    client's timer restarts when its interval changes. So the interval becomes the time to the next
    commit plus a little, and stays while heartbeats arrive soon after commits. Only the member's next
    heartbeat arrives late.
    """
    told, passed = max(usual, pace.told_ms), now - pace.released_at
    known, pace.released_at = pace.released_at > 0, now
    period = passed // max(1, round(passed / usual))  # commits without a held heartbeat were not counted
    if not known or passed > 3 * usual or not usual * 19 // 20 <= period <= usual * 3 // 2:
        return told
    if 0 <= held.since - (now - period) <= _SOON_AFTER:
        return told
    wanted = period + _AFTER_A_COMMIT
    return wanted if wanted != told else wanted + 1


def served_plainly(groups: Groups, member: ConsumerMember, held: HeldHeartbeat) -> ConsumerGroupHeartbeatResponse:
    """Return an answer with the usual interval, for members that release each other or whose client left."""
    return _nothing_new(member, held, groups.settings(held.request.group_id).heartbeat_interval_ms)


def _nothing_new(member: ConsumerMember, held: HeldHeartbeat, interval_ms: Millis) -> ConsumerGroupHeartbeatResponse:
    request = held.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        takes_offers=request.offered_assignors is not None,
    )


def is_silent(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat omits all optional fields."""
    return request.offered_assignors is None and says_at_most_offers(request)


def says_at_most_offers(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat omits all optional fields but `offered_assignors`, which some members always send."""
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
