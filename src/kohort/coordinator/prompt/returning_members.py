"""Members that return to an empty group: when all have returned, the group does not wait for others.

The first rebalance of an empty group lasts group.initial.rebalance.delay.ms, so that a starting
group does not rebalance once per member. If the last members are known and the same number with the
same names has joined, the group has started. The state is soft: after a failover, the delay applies.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kohort.coordinator.prompt.client_timings import RETURN_MAX
from kohort.model import Millis


def lasting_name(instance_id: str | None, client_id: str) -> str:
    """Return a name that survives restarts: the instance ID, else the client ID, which several members may share."""
    return f"static {instance_id}" if instance_id is not None else f"dynamic {client_id}"


@dataclass(slots=True)
class FormerMembers:
    """Members that one classic group recently had, by names that survive restarts."""

    peak: int = 0
    """Recent maximum number of members, whatever their names."""
    peak_at: Millis = 0
    """Time at which the last generation of that size ended."""
    _members: Counter[str] = field(default_factory=Counter)
    """Recent number of members per name."""
    _ended_at: dict[str, Millis] = field(default_factory=dict)
    """Time at which the last generation with a member of that name ended."""

    def generation_ended(self, names: Iterable[str], now: Millis) -> None:
        """Record the members of a generation.

        Members that leave one by one end several generations, so the largest count per name is kept.
        """
        expected, count = self._expected(now), 0
        for name, members in Counter(names).items():
            expected[name] = max(members, expected[name])
            self._ended_at[name] = now
            count += members
        if count >= self.peak or not now - RETURN_MAX <= self.peak_at <= now:
            self.peak, self.peak_at = count, now

    def have_returned(self, names: Iterable[str], now: Millis) -> bool:
        """Return whether the members with these names include all former ones; no if there are none."""
        expected = self._expected(now)
        return bool(expected) and expected <= Counter(names)

    def were_more_than(self, members: int, now: Millis) -> bool:
        """Return whether the group was larger recently: a new member may then be a restarted one with another name."""
        return members < self.peak and now - RETURN_MAX <= self.peak_at <= now

    def _expected(self, now: Millis) -> Counter[str]:
        for name, at in list(self._ended_at.items()):
            if not now - RETURN_MAX <= at <= now:
                del self._ended_at[name], self._members[name]
        return self._members
