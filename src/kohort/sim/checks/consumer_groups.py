"""Invariants of one consumer group (KIP-848), checked after each change: S1, S2, S4, L3."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.coordinator import MetadataImage
from kohort.coordinator.consumer import ConsumerGroup, ConsumerMember, MemberState
from kohort.model import UUID
from kohort.sim.checks.balance import MOVES_LITTLE, Shares, needless_moves
from kohort.sim.violation import Violation

Place = tuple[UUID, int]


@dataclass(slots=True)
class Ownership:
    """Owner of a partition, and its member epoch when it was last observed to have the partition."""

    member_id: str
    instance_id: str | None
    epoch: int

    def is_life_before(self, member: ConsumerMember) -> bool:
        """Return whether this was the same member, or the previous incarnation of the same static member."""
        return self.member_id == member.member_id or (
            self.instance_id is not None and self.instance_id == member.instance_id
        )


@dataclass(slots=True)
class GroupHistory:
    """Earlier observations of a group."""

    epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    """Members at the last check: members are replaced, not modified."""
    owners: dict[Place, str] = field(default_factory=dict)
    """Owner of each partition among these members."""
    holders: dict[Place, Ownership] = field(default_factory=dict)
    """Last owner of each partition, even if it currently has none."""
    target_epoch: int = 0
    away: set[str] = field(default_factory=set)
    """Members removed since, by instance id if they have one."""
    shares: Shares | None = None
    """Target of that epoch, if all members have the same subscription and the assignor guarantees few moves."""


def check_consumer_group(
    group: ConsumerGroup,
    past: GroupHistory,
    sessions: Collection[str],
    names: Mapping[UUID, str],
    image: MetadataImage | None,
    assignor: str,
) -> None:
    """Check that the group is consistent with itself and with its past.

    `names` has the existing topics, and `image` is the coordinator's metadata; None if it was not
    kept. `sessions` are the members with a session timer. Only members that are new or replaced
    since the last check are examined: a property of an unchanged member remains true as long as
    epochs only increase.
    """
    name = group.group_id
    if group.epoch < past.epoch:
        raise Violation("S4", f"the epoch of {name} decreased from {past.epoch} to {group.epoch}")
    if group.target_epoch > group.epoch:
        raise Violation("S4", f"the target of {name} has epoch {group.target_epoch}, the group has epoch {group.epoch}")
    past.epoch = group.epoch
    past.away |= {
        member.instance_id or member.member_id for id_, member in past.members.items() if id_ not in group.members
    }
    if group.target_epoch != past.target_epoch:
        past.target_epoch, before_shares = group.target_epoch, past.shares
        past.shares = _shares(group, names) if (group.computing.made_by or assignor) in MOVES_LITTLE else None
        moves = ""
        # A member that was removed and returned before this target has lost its place in it.
        if before_shares and past.shares and not past.away & past.shares.members:
            moves = needless_moves(before_shares, past.shares)
        past.away.clear()
        if moves:
            raise Violation("S3", f"{name} at target epoch {group.target_epoch}: {moves}")
    before, members = past.members, group.members
    changed = [member for member_id, member in members.items() if before.get(member_id) is not member]
    for member_id in members:
        if member_id not in sessions:
            raise Violation("L3", f"the session of {member_id} in {name} has no timer")
    if not changed and len(before) == len(members):
        return
    gone = [member for member_id, member in before.items() if member_id not in members]
    for member in (*gone, *(before[new.member_id] for new in changed if new.member_id in before)):
        for place in places_of(member):
            past.owners.pop(place, None)
    for member in changed:
        _check_member(group, member, before.get(member.member_id), names, image)
        for place in places_of(member):
            other = past.owners.setdefault(place, member.member_id)
            if other != member.member_id:
                raise Violation("S1", f"{_named(place, names)} of {name} is assigned to {other} and {member.member_id}")
    _check_hands(name, changed, past, names)
    past.members = dict(members)


def _shares(group: ConsumerGroup, names: Mapping[UUID, str]) -> Shares | None:
    """Return the target, or None if members have different subscriptions."""
    starts = {member_id: member.instance_id or member_id for member_id, member in group.members.items()}
    asked = {member.subscription.names for member in group.members.values()}
    if len(asked) != 1 or any(member.subscription.expression for member in group.members.values()):
        return None
    # By topic id: the partitions of a topic that was deleted and recreated are different ones.
    owners = {
        f"{_named(place, names)} of {place[0]}": start
        for member_id, start in starts.items()
        for place in group.target_of(member_id)
    }
    return Shares(asked.pop(), owners, frozenset(starts.values()))


def places_of(member: ConsumerMember) -> Iterable[Place]:
    return (*member.assigned, *member.revoking)


def _named(place: Place, names: Mapping[UUID, str]) -> str:
    return f"{names.get(place[0], place[0])}-{place[1]}"


def _check_member(
    group: ConsumerGroup,
    member: ConsumerMember,
    before: ConsumerMember | None,
    names: Mapping[UUID, str],
    image: MetadataImage | None,
) -> None:
    name, member_id = group.group_id, member.member_id
    if member.epoch > group.epoch:
        raise Violation("S4", f"{member_id} of {name} has epoch {member.epoch}, the group has epoch {group.epoch}")
    if before is not None and 0 < member.epoch < before.epoch:
        raise Violation("S4", f"the epoch of {member_id} of {name} decreased from {before.epoch} to {member.epoch}")
    if member.state is MemberState.STABLE and member.epoch == group.epoch:
        for topic_id, partition in member.assigned:
            topic = names.get(topic_id)
            known = None if image is None else image.by_id.get(topic_id)
            if image is not None and (known is None or not 0 <= partition < known.shape.partitions):
                raise Violation(
                    "S2", f"{member_id} of {name} has {topic or topic_id}-{partition}, which does not exist"
                )
            if topic is not None and not _wants(group, member, topic):
                raise Violation("S2", f"{member_id} of {name} has {topic}-{partition}, but does not subscribe to it")


def _wants(group: ConsumerGroup, member: ConsumerMember, topic: str) -> bool:
    if member.subscription.expression is not None:
        return group.is_subscribed(topic)
    return topic in member.subscription.names


def _check_hands(name: str, changed: Iterable[ConsumerMember], past: GroupHistory, names: Mapping[UUID, str]) -> None:
    """Check that each new owner has a partition at a later epoch than the previous one: their commits never mix."""
    for member in changed:
        for place in places_of(member):
            before = past.holders.get(place)
            if before is not None and not before.is_life_before(member) and member.epoch <= before.epoch:
                detail = (
                    f"{before.member_id} had {_named(place, names)} of {name} at epoch {before.epoch}, "
                    f"{member.member_id} has it at {member.epoch}"
                )
                raise Violation("S1", detail)
            past.holders[place] = Ownership(member.member_id, member.instance_id, member.epoch)
