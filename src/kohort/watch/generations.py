"""Events that lead from one generation of a classic group to the next, without their unknown times. Pure."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from kohort.group_events import (
    AssignmentMade,
    Cause,
    GroupEvent,
    MemberFacts,
    MemberGone,
    MemberRejoined,
    RebalanceStarted,
)
from kohort.model import Millis, TopicPartition
from kohort.watch.changes import GenerationMember, GenerationWritten

MOST_TRIGGERS = 20
"""Maximum number of triggers of one kind in a record."""

NOTICED_WITHIN_MS: Millis = 300_000
"""Time within which all members notice a change of topics, by the default of clients."""

Reasons = list[tuple[Cause, str | None]]


@dataclass(frozen=True, slots=True)
class Before:
    """Member of the last generation."""

    facts: MemberFacts
    topics: frozenset[str]
    owned: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LastGeneration:
    """Generation before the one that was written."""

    generation: int | None
    protocol: str | None
    members: Mapping[str, Before]
    taken: Mapping[TopicPartition, str]
    """Last owner of each partition that this generation's cooperative assignor took from a member, and gave to none."""
    unowned: Set[TopicPartition] = frozenset()
    """All partitions that had an owner earlier, and have none in this generation."""
    topics_changed_at: Millis | None = None
    """Time of the last generation that gave partitions because the topics changed."""


def events_of(change: GenerationWritten, last: LastGeneration | None) -> list[GroupEvent]:
    """Return the events that lead to this generation from the last one; `last` is None if that is unknown."""
    before: Mapping[str, Before] = {} if last is None else last.members
    after = {member.facts.member_id: member for member in change.members}
    again = last is not None and last.generation == change.generation
    events: list[GroupEvent] = []
    if not again:
        events += [
            RebalanceStarted(change.group_id, change.generation, cause, member_id, None, change.protocol)
            for cause, member_id in reasons_of(change, last)
        ]
    why = Cause.STATIC_MEMBER_RETURNED if again else Cause.MEMBER_GONE
    events += [
        MemberGone(change.group_id, member.facts, why, None)
        for member_id, member in before.items()
        if member_id not in after
    ]
    if not again:
        events += [
            MemberRejoined(change.group_id, member.facts, member.kept)
            for member_id, member in after.items()
            if member_id in before
        ]
    members = tuple(member.facts for member in change.members)
    assignment = {member.facts.member_id: member.assigned for member in change.members}
    return [
        *events,
        AssignmentMade(
            change.group_id, change.generation, change.protocol, change.leader_id or "", members, assignment
        ),
    ]


def reasons_of(change: GenerationWritten, last: LastGeneration | None) -> Reasons:
    """Return what differs from the last generation, at least `UNKNOWN`."""
    after = {member.facts.member_id: member for member in change.members}
    if last is None:
        first = change.generation == 1 and bool(after)
        return [(Cause.FIRST_MEMBER, next(iter(after)))] if first else [(Cause.UNKNOWN, None)]
    gone: Reasons = [(Cause.MEMBER_GONE, member_id) for member_id in last.members if member_id not in after]
    cause = Cause.MEMBER_JOINED if last.members else Cause.FIRST_MEMBER
    came: Reasons = [(cause, member_id) for member_id in after if member_id not in last.members]
    if gone or came:
        return [*gone[:MOST_TRIGGERS], *came[:MOST_TRIGGERS]]
    return list(_reasons_of_same_members(change, last, after)) or [(Cause.UNKNOWN, None)]


def _reasons_of_same_members(
    change: GenerationWritten, last: LastGeneration, after: Mapping[str, GenerationMember]
) -> Iterator[tuple[Cause, str | None]]:
    if last.protocol is None:
        return  # a broker describes a group that rebalances without protocol, subscriptions and partitions
    subscribed = [member_id for member_id, member in after.items() if member.topics != last.members[member_id].topics]
    if subscribed:
        yield from ((Cause.SUBSCRIPTION_CHANGED, member_id) for member_id in subscribed[:MOST_TRIGGERS])
    elif change.protocol != last.protocol:
        yield Cause.ASSIGNOR_CHANGED, None
    elif last.taken:
        # KIP-429: a member joins again after it has given up what was taken from it.
        yield from ((Cause.OWNED_CHANGED, member_id) for member_id in sorted(set(last.taken.values()))[:MOST_TRIGGERS])
    else:
        given = _given(after, last)
        if given & last.unowned:
            yield Cause.OWNED_CHANGED, None  # the rebalance between was not able to give them to anyone
        elif given:
            yield Cause.TOPICS_CHANGED, None
        elif last.topics_changed_at is not None and change.at - last.topics_changed_at <= NOTICED_WITHIN_MS:
            yield Cause.TOPICS_CHANGED, None  # librdkafka joins again when each member notices it, not only the leader


def _given(after: Mapping[str, GenerationMember], last: LastGeneration) -> Set[TopicPartition]:
    """Return the partitions that have an owner, and had none in the last generation."""
    owned = {partition for member in last.members.values() for partition in member.owned}
    return {partition for member in after.values() for partition in member.assigned} - owned
