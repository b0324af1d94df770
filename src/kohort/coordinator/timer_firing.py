"""Handle an expired timer of a shard."""

from kohort.coordinator.classic import ClassicGroup, classic_timer_expired
from kohort.coordinator.consumer import ConsumerGroup, consumer_timer_expired
from kohort.coordinator.effects import Effects
from kohort.coordinator.groups import Groups
from kohort.coordinator.offsets import expire
from kohort.coordinator.timers import HeldHeartbeatsDue, OffsetExpiry, Timer
from kohort.model import Millis


def fire(groups: Groups, timer: Timer, now: Millis, out: Effects) -> None:
    """Handle an expired timer. A timer whose group or member no longer exists does nothing."""
    if isinstance(timer, OffsetExpiry):
        expire(groups, now, out)
    elif isinstance(timer, HeldHeartbeatsDue):
        if groups.prompt is not None:
            groups.prompt.holds_due(now, out)
    else:
        match groups.get(timer.group_id):
            case ClassicGroup() as group:
                classic_timer_expired(groups, group, timer, now, out)
            case ConsumerGroup() as group:
                consumer_timer_expired(groups, group, timer, now, out)
