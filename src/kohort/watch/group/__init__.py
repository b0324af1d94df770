"""State of one group as its log tells it, and the records of its rebalances. Pure."""

from kohort.watch.group.members import REBALANCING, GroupFound, WatchedMember
from kohort.watch.group.watched import NO_ENDS, WatchedGroup

__all__ = ["NO_ENDS", "REBALANCING", "GroupFound", "WatchedGroup", "WatchedMember"]
