"""The groups of one shard, and what the handlers of requests share."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from kohort.assignor.server import ServerAssignor
from kohort.coordinator.classic_group import ClassicGroup
from kohort.coordinator.config import DEFAULT_SETTINGS, GroupConfig, GroupSettings
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.metadata import UNKNOWN, MetadataImage
from kohort.coordinator.effects import Effects, RequestContext, Token
from kohort.coordinator.holds import Holds
from kohort.coordinator.rebalance import Parked
from kohort.wire.codec import Message

Group = ClassicGroup | ConsumerGroup


@dataclass(slots=True)
class Groups:
    """All state of a shard."""

    config: GroupConfig
    fresh_id: Callable[[], str]
    """Gives an id that nobody can guess: who knows a member id can act as that member."""
    assignors: Mapping[str, ServerAssignor] = field(default_factory=dict)
    """The server assignors by name, the default one first."""
    settings: Callable[[str], GroupSettings] = lambda group_id: DEFAULT_SETTINGS
    """What counts for a consumer group at this moment."""
    metadata: MetadataImage = UNKNOWN
    by_id: dict[str, Group] = field(default_factory=dict)
    by_topic: dict[str, dict[str, None]] = field(default_factory=dict)
    """By topic name the ids of the consumer groups that ask for it, so that a change of a topic costs those alone."""
    with_expressions: dict[str, None] = field(default_factory=dict)
    """The ids of the consumer groups that may ask for a topic that is made only now."""
    parked: dict[Token, Parked] = field(default_factory=dict)
    """Every JoinGroup and SyncGroup that waits for its answer."""
    holds: Holds = field(default_factory=Holds)
    """The heartbeats that wait for news."""

    def get(self, group_id: str) -> Group | None:
        """The group of that id, if there is one."""
        return self.by_id.get(group_id)

    # Classic groups

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group of that id, if it is a classic one."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def make_classic(self, group_id: str) -> ClassicGroup:
        """A new, empty classic group; it takes over what another kind of group has committed."""
        old = self.by_id.get(group_id)
        assert not isinstance(old, ClassicGroup)
        group = self.by_id[group_id] = ClassicGroup(group_id)
        if old is not None:
            group.offsets = old.offsets
            self._unlist(old)
        return group

    def drop_if_forgettable(self, group: Group) -> None:
        """Forget a group that has neither members nor offsets nor a place in the log."""
        if isinstance(group, ClassicGroup) and group.is_forgettable:
            self.by_id.pop(group.group_id, None)

    # Consumer groups

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The group of that id, if it is a consumer group."""
        group = self.by_id.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def make_consumer(self, group_id: str) -> ConsumerGroup:
        """A new, empty consumer group; it takes over what another kind of group has committed."""
        group = ConsumerGroup(group_id)
        self.adopt(group)
        return group

    def adopt(self, group: ConsumerGroup) -> None:
        """Have a consumer group that is new; see `make_consumer`."""
        old = self.by_id.get(group.group_id)
        assert not isinstance(old, ConsumerGroup)
        if old is not None:
            group.offsets = old.offsets
        self.by_id[group.group_id] = group

    def forget_consumer(self, group: ConsumerGroup) -> None:
        """The group was deleted; what still has offsets lives on as a simple consumer's."""
        self._unlist(group)
        del self.by_id[group.group_id]
        if group.offsets:
            self.make_classic(group.group_id).offsets = group.offsets

    def list_topics(self, group: ConsumerGroup, names: Collection[str]) -> None:
        """Note whether the group asks for these topics, and whether it asks by expressions."""
        for name in names:
            listed = self.by_topic.setdefault(name, {})
            if group.is_subscribed(name):
                listed[group.group_id] = None
            else:
                listed.pop(group.group_id, None)
                if not listed:
                    del self.by_topic[name]
        if group.topics.expressions:
            self.with_expressions[group.group_id] = None
        else:
            self.with_expressions.pop(group.group_id, None)

    def _unlist(self, group: ConsumerGroup) -> None:
        for name in group.topics.counts:
            self.by_topic[name].pop(group.group_id)
            if not self.by_topic[name]:
                del self.by_topic[name]
        self.with_expressions.pop(group.group_id, None)

    # Requests that wait

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
