"""The groups of one shard, and what the handlers of requests share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.effects import Effects, RequestContext, Token
from kohort.coordinator.rebalance import Parked
from kohort.wire.codec import Message


@dataclass(slots=True)
class Groups:
    """All state of a shard."""

    config: GroupConfig
    fresh_id: Callable[[], str]
    """Gives an id that nobody can guess: who knows a member id can act as that member."""
    by_id: dict[str, ClassicGroup] = field(default_factory=dict)
    parked: dict[Token, Parked] = field(default_factory=dict)
    """Every request that waits for its answer."""

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group of that id, if there is one."""
        return self.by_id.get(group_id)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        """The group of that id, empty if it is new."""
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ClassicGroup(group_id)
        return group

    def drop_if_forgettable(self, group: ClassicGroup) -> None:
        """Forget a group that has neither members nor offsets nor a place in the log."""
        if group.is_forgettable:
            self.by_id.pop(group.group_id, None)

    def park(self, context: RequestContext) -> Parked:
        """Let a request wait for its answer."""
        parked = self.parked[context.token] = Parked(context.token, context.api_version)
        return parked

    def answer(self, parked: Parked | None, response: Message, out: Effects) -> None:
        """Answer a request that waited, if there is one and its connection still is there."""
        if parked is not None and parked.token is not None:
            del self.parked[parked.token]
            out.replies[parked.token] = response

    def disconnected(self, token: Token) -> None:
        """Drop the answer that nobody will read.

        The member stays: it may come back with its id, and if it does not, its session ends it.
        """
        parked = self.parked.pop(token, None)
        if parked is not None:
            parked.token = None
