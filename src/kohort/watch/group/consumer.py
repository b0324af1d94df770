"""Steps of a consumer group (KIP-848), as its log has them, from a new group epoch to the settled group. Pure."""

from collections.abc import Mapping

from kohort.group_events import (
    Cause,
    GroupEpochBumped,
    GroupEvent,
    GroupSettled,
    MemberCame,
    MemberFacts,
    MemberGone,
    MemberMoved,
)
from kohort.model import UUID, Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import AssignmentWritten, EpochRaised, MemberDeleted, MemberWritten
from kohort.watch.generations import MOST_TRIGGERS
from kohort.watch.group.members import Former, WatchedMember
from kohort.watch.group.state import AWAY, GroupState, named

_FIRST_EPOCHS = 2
"""Highest group epoch that the first member of a new group raises: 1 or 2, depending on the broker."""
_MOST_REASONS = 1_000
"""Number of causes that are kept for the next group epoch. A damaged log may never have one."""


def epoch(group: GroupState, change: EpochRaised) -> list[RebalanceRecord]:
    """Take a new group epoch. A rebalance begins with it."""
    if group.type is None:
        group.resume("consumer", change.at)
    last, group.type = group.epoch if group.type == "consumer" else None, "consumer"
    reasons, group.reasons = group.reasons, []
    hashes, group.metadata_hash = (group.metadata_hash, change.metadata_hash), change.metadata_hash
    group.epoch = change.epoch
    if last is not None and change.epoch <= last:
        return []  # read again after the log was truncated
    if last is None and reasons and change.epoch <= _FIRST_EPOCHS:
        group.complete = True
        reasons = [(Cause.FIRST_MEMBER, member_id) for _, member_id in reasons]
    # Each member writes a step for each epoch, so all of them have appeared by the second one.
    group.complete = group.complete or last is not None
    if not group.complete:
        reasons = [(cause, member_id) for cause, member_id in reasons if cause is Cause.MEMBER_GONE]
    if not reasons and all(hashes) and hashes[0] != hashes[1]:
        reasons = [(Cause.TOPICS_CHANGED, "")]
    group.moving = True
    events: list[GroupEvent] = [
        GroupEpochBumped(group.group_id, change.epoch, cause, member_id or None, None)
        for cause, member_id in (reasons or [(Cause.UNKNOWN, "")])[:MOST_TRIGGERS]
    ]
    records = group.observe(events, change.at)
    return records + (settle(group, change.at) if not group.members else [])


def member(group: GroupState, change: MemberWritten) -> list[RebalanceRecord]:
    """Take the identity and subscription of a member."""
    if group.type is None:
        group.resume("consumer", change.at)
    group.type = group.type or "consumer"
    member_id = change.facts.member_id
    old = group.members.get(member_id)
    if old is None:
        cause = Cause.MEMBER_JOINED if group.members or not group.complete else Cause.FIRST_MEMBER
        _give_reason(group, cause, member_id)
        group.members[member_id] = WatchedMember(change.facts, change.topics, change.expression, stable=False)
    else:
        if (old.topics, old.expression) != (change.topics, change.expression):
            _give_reason(group, Cause.SUBSCRIPTION_CHANGED, member_id)
        old.facts, old.topics, old.expression = change.facts, change.topics, change.expression
    group.protocol = change.assignor or group.protocol
    return []


def member_deleted(group: GroupState, change: MemberDeleted) -> list[RebalanceRecord]:
    """Take the end of a membership."""
    member = group.members.pop(change.member_id, None)
    if member is None:
        return []
    # A static member that was away did not read since it left.
    group.unowned |= dict.fromkeys(member.owned, change.at if member.away_since is None else member.away_since)
    if group.former is None or group.former.at != change.at:
        group.former = Former(change.at, "consumer", group.epoch or 0, group.protocol, {})
    group.former.members[change.member_id] = member  # the group may change to the classic protocol
    away = member.epoch == AWAY
    cause = Cause.STATIC_MEMBER_RETURNED if away else Cause.MEMBER_GONE
    _give_reason(group, cause, change.member_id)
    return group.observe([MemberGone(group.group_id, member.facts, cause, None)], change.at)


def _give_reason(group: GroupState, cause: Cause, member_id: str) -> None:
    if len(group.reasons) < _MOST_REASONS:
        group.reasons.append((cause, member_id))


def assignment(group: GroupState, change: AssignmentWritten, names: Mapping[UUID, str]) -> list[RebalanceRecord]:
    """Take a member's step toward its target."""
    group.type = group.type or "consumer"
    member = group.members.get(change.member_id)
    if member is None:  # the record of its identity precedes the history
        member = group.members[change.member_id] = WatchedMember(MemberFacts(change.member_id, "", ""))
    events = _steps(group, change, member, names)
    member.epoch, member.stable = change.epoch, change.stable
    member.away_since = None if change.epoch != AWAY else change.at if member.away_since is None else member.away_since
    member.held, owned = change.assigned | change.revoking, member.owned
    member.owned = named(member.held, names)
    _time_revocation(group, member, owned & member.owned, named(change.revoking, names), change.at)
    return group.observe(events, change.at) + settle(group, change.at)


def _steps(
    group: GroupState, change: AssignmentWritten, member: WatchedMember, names: Mapping[UUID, str]
) -> list[GroupEvent]:
    nothing = frozenset[TopicPartition]()
    events: list[GroupEvent] = []
    assigned, revoking = named(change.assigned, names), named(change.revoking, names)
    if member.held is None and member.owned:
        old = member.owned  # an admin API described it
    elif member.held is not None:
        old = named(member.held, names)
    elif change.previous_epoch > 0:
        # It joined before the history, and nothing tells what it had before this step. What it has
        # now is recorded as held, not as taken.
        return [MemberMoved(group.group_id, member.facts, change.epoch, assigned | revoking, nothing, nothing)]
    else:
        old = nothing
        events.append(MemberCame(group.group_id, member.facts))
    gave_up, took = old - assigned - revoking, assigned - old
    if gave_up or took or revoking:
        group.moving = True
        group.unowned |= dict.fromkeys(gave_up, change.at)
        for partition in took:
            since = group.unowned.pop(partition, None)
            if since is not None:
                group.darkness.took(partition, group.commits.get(partition), unowned=since, at=change.at)
        events.append(MemberMoved(group.group_id, member.facts, change.epoch, revoking, gave_up, took))
    return events


def _time_revocation(
    group: GroupState,
    member: WatchedMember,
    kept: frozenset[TopicPartition],
    revoking: frozenset[TopicPartition],
    at: Millis,
) -> None:
    for partition in kept - revoking:
        group.darkness.kept(partition)
    for partition in revoking:
        group.darkness.told(partition, at)
    if member.revoking_since is not None:
        took = max(0, at - member.revoking_since)
        member.slowest_revocation_ms = max(took, member.slowest_revocation_ms or 0)
    member.revoking_since = (member.revoking_since or at) if revoking else None


def settle(group: GroupState, at: Millis) -> list[RebalanceRecord]:
    """Complete the rebalance if every member has reached its target."""
    reached = group.target_epoch is None or group.epoch is None or group.target_epoch >= group.epoch
    done = reached and group.settled if group.members else group.complete
    if not group.moving or not done:
        return []
    group.moving = False
    return group.observe([GroupSettled(group.group_id, group.epoch or 0, group.protocol or "")], at)
