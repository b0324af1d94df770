"""Members that return to an empty group: when all have returned, the group does not wait for others.

The first rebalance of an empty group lasts group.initial.rebalance.delay.ms, so that a starting
group does not rebalance once per member. If the last members are known and the same number with the
same names has joined, the group has started. The state is soft: after a failover, the delay applies.
"""

from collections import Counter

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.groups import Groups
from kohort.model import Millis
from kohort.wire.group_log.group_records import MemberMetadata

_EXPECTED: Millis = 600_000
"""Age after which former members are no longer expected and do not shorten the wait."""


def remember_members(groups: Groups, group: ClassicGroup, now: Millis) -> None:
    """Remember the members of a generation that ends.

    Members that leave one by one end several generations, so the largest count per name is kept.
    """
    if not groups.config.heartbeat_hold_ms or group.stored is None:
        return
    expected = _expected(group, now)
    for name, members in Counter(map(_name, group.stored.members)).items():
        expected[name] = max(members, expected[name])
        group.left_at[name] = now
    if len(group.stored.members) >= group.peak or not now - _EXPECTED <= group.peak_at <= now:
        group.peak, group.peak_at = len(group.stored.members), now


def all_are_back(group: ClassicGroup, now: Millis) -> bool:
    """Return whether all members that the group recently had have joined again."""
    expected = _expected(group, now)
    return bool(expected) and group.all_have_joined and expected <= Counter(map(_name, group.members.values()))


def somebody_is_away(group: ClassicGroup, now: Millis) -> bool:
    """Return whether the group was larger recently: a new member may then be a restarted one with another name."""
    return len(group.members) < group.peak and now - _EXPECTED <= group.peak_at <= now


def _expected(group: ClassicGroup, now: Millis) -> Counter[str]:
    for name, at in list(group.left_at.items()):
        if not now - _EXPECTED <= at <= now:
            del group.left_at[name], group.last_members[name]
    return group.last_members


def _name(member: Member | MemberMetadata) -> str:
    """Return a name that survives restarts: the instance ID, else the client ID, which several members may share."""
    instance_id = member.instance_id if isinstance(member, Member) else member.group_instance_id
    return f"static {instance_id}" if instance_id is not None else f"dynamic {member.client_id}"
