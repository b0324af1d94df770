"""The parts of a shard that the rules of consumer groups use."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kohort.assignor.server import ServerAssignor
from kohort.coordinator.classic import ClassicGroup, ClassicGroups
from kohort.coordinator.config import GroupSettings
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.effects import Viewer


class ConsumerGroups(ClassicGroups, Protocol):
    """The groups of a shard; `Groups` implements it. A consumer group may have been a classic group, or become one."""

    @property
    def by_id(self) -> Mapping[str, ClassicGroup | ConsumerGroup]:
        """Groups of all kinds."""

    @property
    def by_topic(self) -> Mapping[str, Mapping[str, None]]:
        """By topic name, the IDs of the consumer groups that subscribe to it."""

    @property
    def with_expressions(self) -> Collection[str]:
        """IDs of the consumer groups with expressions."""

    @property
    def assignors(self) -> Mapping[str, ServerAssignor]:
        """Server assignors by name, the default first."""

    @property
    def settings(self) -> Callable[[str], GroupSettings]:
        """Return the current settings of a consumer group."""

    @property
    def may_describe(self) -> Callable[[Viewer, str], bool] | None:
        """Return whether a client may describe a topic; None if every client may describe all."""

    def get(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return the group with that ID, or None."""

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the group with that ID if it is a consumer group, else None."""

    def make_classic(self, group_id: str) -> ClassicGroup:
        """Create an empty classic group; it inherits the committed offsets of a group of another kind."""

    def make_consumer(self, group_id: str) -> ConsumerGroup:
        """Create an empty consumer group; it inherits the committed offsets of a group of another kind."""

    def adopt(self, group: ConsumerGroup) -> None:
        """Register a new consumer group; see `make_consumer`."""

    def forget_consumer(self, group: ConsumerGroup) -> None:
        """Remove a deleted group; if offsets remain, they belong to a simple consumer's group from now on."""

    def list_topics(self, group: ConsumerGroup, names: Collection[str]) -> None:
        """Update which of these topics the group subscribes to, and whether it subscribes by expressions."""
