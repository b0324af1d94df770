"""The parts of a shard that the rules of classic groups use."""

from collections.abc import Mapping
from typing import Protocol

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.rebalance import WaitingMember
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.effects import Effects, RequestContext
from kohort.coordinator.prompt import PromptHeartbeats
from kohort.coordinator.topic_metadata import MetadataImage
from kohort.wire.codec import Message


class ClassicGroups(Protocol):
    """The groups of a shard; `Groups` implements it."""

    @property
    def config(self) -> GroupConfig: ...
    @property
    def metadata(self) -> MetadataImage: ...
    @property
    def prompt(self) -> PromptHeartbeats | None:
        """Decides when answers leave; None if no heartbeats are held."""

    @property
    def by_id(self) -> Mapping[str, object]:
        """Groups of all kinds."""

    def fresh_id(self) -> str:
        """Return an ID that cannot be guessed."""

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the group with that ID if it is a classic group, else None."""

    def start_classic(self, group_id: str, out: Effects) -> ClassicGroup:
        """Create an empty classic group. `out` deletes the records of an empty group of another kind with that ID."""

    def park(self, context: RequestContext) -> WaitingMember:
        """Register a request that waits for its answer."""

    def answer(self, parked: WaitingMember | None, response: Message, out: Effects) -> None:
        """Answer a waiting request, unless there is none or its connection is closed."""
