"""Rules about one event of a coordinator: which groups it may touch, and how a stale request is refused.

Pure functions of requests, effects and groups, for `CheckedCoordinator`.
"""

from collections.abc import Collection

from kohort.coordinator import Effects, GroupRecord, Token
from kohort.coordinator.classic import ClassicGroup
from kohort.coordinator.consumer import ConsumerGroup
from kohort.sim.checks.classic_rules import ACCEPTED, asked_topics, codes, fingerprint
from kohort.sim.checks.consumer_rules import fingerprint_of_consumer_group
from kohort.sim.checks.observed_groups import AnyGroup
from kohort.sim.violation import Violation
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.offset_commit import OffsetCommitRequest


def instance_id_of(request: Message) -> str:
    """Return the instance id of the static member that sent the request, or ""."""
    return getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None) or ""


def is_join_of_process(request: Message) -> bool:
    """Return whether the request is the first one of a process: a known member joins again under its id."""
    if isinstance(request, JoinGroupRequest):
        return not request.member_id
    return isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch == 0


def waiting_group(token: Token) -> tuple[str, ...]:
    """Return the group of the request that waits under that token."""
    return (getattr(getattr(token, "request", None), "group_id", ""),)


def touched_groups(effects: Effects) -> list[str]:
    """Return the groups that an event wrote records for or set timers of."""
    owners = [_owner(record) for record in effects.records]
    owners += [getattr(timer, "group_id", None) for timer in effects.timers]
    return list(dict.fromkeys(owner for owner in owners if owner is not None))


def _owner(record: GroupRecord) -> str | None:
    return getattr(record.key, "group", None) or getattr(record.key, "group_id", None)


def check_touches_only(concerned: Collection[str], effects: Effects) -> None:
    """Check that an event that concerns these groups changed no other, and answered no member of another (S13)."""
    named = " and ".join(concerned) or "no group"
    for record in effects.records:
        if _owner(record) not in concerned:
            raise Violation("S13", f"an event of {named} wrote {record.key}")
    for timer in effects.timers:
        if (group_id := getattr(timer, "group_id", None)) is not None and group_id not in concerned:
            raise Violation("S13", f"an event of {named} set {timer}")
    for token in effects.replies:
        if (group_id := getattr(getattr(token, "request", None), "group_id", None)) and group_id not in concerned:
            raise Violation("S13", f"an event of {named} answered a member of {group_id}")


def may_subscribe(group: AnyGroup | None, topics: Collection[str]) -> bool:
    """Return whether a member may subscribe to one of the topics; expressions are not evaluated."""
    if isinstance(group, ConsumerGroup):
        asked = [member.subscription for member in group.members.values()]
        return any(
            subscription.expression is not None or not subscription.names.isdisjoint(topics) for subscription in asked
        )
    if group is None:
        return False
    return any(
        subscribed is None or any(not names.isdisjoint(topics) for names in subscribed)
        for subscribed in map(asked_topics, group.members.values())
    )


def fingerprint_of_group(group: AnyGroup | None) -> object:
    """Return the state of a group of either kind that no rejected request may change."""
    return fingerprint_of_consumer_group(group) if isinstance(group, ConsumerGroup) else fingerprint(group)


def check_refused(request: Message, effects: Effects, token: Token) -> None:
    """Check that a stale request was answered at once, with an error for all that it asks, and wrote nothing."""
    invariant = "S6" if isinstance(request, OffsetCommitRequest) else "S5"
    if effects.records:
        raise Violation(invariant, f"{request} wrote records")
    reply = effects.replies.get(token)
    if reply is None or any(code in ACCEPTED for code in codes(reply)):
        raise Violation(invariant, f"{request} was accepted")


def needs_offsets(group: AnyGroup, topic: str) -> bool:
    """Return whether a member subscribes to the topic; expressions are not evaluated."""
    if isinstance(group, ClassicGroup):
        return group.is_subscribed()(topic)
    return any(topic in member.subscription.names for member in group.members.values())
