"""Members that come back to a group which everybody had left: when all are back, nobody else is waited for.

The first rebalance of an empty group lasts group.initial.rebalance.delay.ms, so that a group which starts does not
rebalance once per member. Where the last members are known, and as many of the same names have joined, it has started.
Soft: a failover forgets it, and then the delay lasts.
"""

from collections import Counter

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.groups import Groups
from kohort.coordinator.member import Member
from kohort.model import Millis
from kohort.wire.group_records import MemberMetadata

_EXPECTED: Millis = 600_000
"""Who was a member so long ago is not waited for, and does not shorten the wait."""


def remember_members(groups: Groups, group: ClassicGroup, now: Millis) -> None:
    """A generation ends: remember who was in it. Members that leave one by one end several, so the most count."""
    if not groups.config.heartbeat_hold_ms or group.stored is None:
        return
    expected = _expected(group, now)
    for name, members in Counter(map(_name, group.stored.members)).items():
        expected[name] = max(members, expected[name])
        group.left_at[name] = now
    if len(group.stored.members) >= group.peak or not now - _EXPECTED <= group.peak_at <= now:
        group.peak, group.peak_at = len(group.stored.members), now


def all_are_back(group: ClassicGroup, now: Millis) -> bool:
    """Whether everybody has joined who was in the group when it was last more than empty."""
    expected = _expected(group, now)
    return bool(expected) and group.all_have_joined and expected <= Counter(map(_name, group.members.values()))


def somebody_is_away(group: ClassicGroup, now: Millis) -> bool:
    """Whether the group was larger lately: then who comes may be one that was restarted, perhaps under another name."""
    return len(group.members) < group.peak and now - _EXPECTED <= group.peak_at <= now


def _expected(group: ClassicGroup, now: Millis) -> Counter[str]:
    for name, at in list(group.left_at.items()):
        if not now - _EXPECTED <= at <= now:
            del group.left_at[name], group.last_members[name]
    return group.last_members


def _name(member: Member | MemberMetadata) -> str:
    """What a member is called in each of its lives: its instance id, else its client id, which may be others', too."""
    instance_id = member.instance_id if isinstance(member, Member) else member.group_instance_id
    return f"static {instance_id}" if instance_id is not None else f"dynamic {member.client_id}"
