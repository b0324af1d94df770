"""A clock that a test controls, for the timers of the kit's brokers.

The wall clock stays real: timestamps of records, logins and quotas do not follow this clock, and neither do leases of
a cluster. All brokers of a cluster share one clock, because they read each other's times in `__consumer_offsets`.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Set

from kohort.broker import Broker, Clock
from kohort.model import Millis

MemberKey = tuple[str, str]
"""Group ID and member ID."""


class ControlledClock(Clock):
    """A clock that runs at a rate, and jumps ahead. It never goes back."""

    def __init__(self, source: Callable[[], Millis] | None = None) -> None:
        """Create a clock that shows the time of `source`, by default that of the machine."""
        if source is None:
            super().__init__()
        else:
            super().__init__(source)
        start = self.wall()
        self._eras: list[tuple[Millis, Millis, float]] = [(start, start, 1.0)]
        """Changes of the clock, oldest first: the wall time, what the clock showed after the change, and its rate."""
        self.now = self._now

    def _now(self) -> Millis:
        since, shown, rate = self._eras[-1]
        return shown + int((self.wall() - since) * rate)

    def set_rate(self, rate: float) -> None:
        """Let one real second count as `rate` seconds; 0 freezes the clock. Raise ValueError if it is negative."""
        if not 0 <= rate <= 1e6:
            raise ValueError(f"The rate of a clock is between 0 and a million, not {rate}.")
        self._eras.append((self.wall(), self._now(), rate))
        self.rate = rate

    def jump(self, by: Millis) -> None:
        """Move the clock ahead at once. Raise ValueError if `by` is negative."""
        if by < 0:
            raise ValueError(f"Time does not go back: {by} ms is negative.")
        self._eras.append((self.wall(), self._now() + by, self.rate))

    def seconds_until(self, at: Millis) -> float | None:
        left = max(0, at - self._now())
        if left == 0 or self.rate == 1:
            return left / 1000
        return left / self.rate / 1000 if self.rate else None

    def written_before(self, age: Millis) -> Millis:
        # Records have real timestamps. A record is as old as the time that this clock has shown since then.
        at = self._now() - age
        era = bisect_right(self._eras, at, key=lambda era: era[1]) - 1
        if era < 0:
            return self._eras[0][0] - (self._eras[0][1] - at)  # before the clock was controlled
        since, shown, rate = self._eras[era]
        wall = since + int((at - shown) / rate) if rate else since
        return min(wall, self._eras[era + 1][0]) if era + 1 < len(self._eras) else wall


def skip_time(
    clock: ControlledClock, brokers: Collection[Broker], by: Millis, dead: Set[MemberKey] = frozenset()
) -> None:
    """Let the clock of these brokers jump ahead, and fire their timers that are then due, in order of time.

    A member that lives has as much real time for its next request as before: it is connected, and either waits for an
    answer, or was heard within the time in which it is due. The deadlines of all others pass, and of those in `dead`.
    """
    # A coordinator that has just taken a group over may not have heard of its members yet, but the last one has.
    connected = {member for broker in brokers for member in broker.member_connections.connected}
    for broker in brokers:
        broker.groups.skip_time(by, connected, dead)
    clock.jump(by)
    for broker in brokers:
        broker.timers.clock_changed()


def change_rate(clock: ControlledClock, brokers: Collection[Broker], rate: float) -> None:
    """Let one real second count as `rate` seconds for the timers of these brokers; 0 freezes them."""
    clock.set_rate(rate)
    for broker in brokers:
        broker.groups.clock_changed()
        broker.timers.clock_changed()
