"""Values that a transactional producer and its driver exchange."""

from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.errors import KafkaError
from kohort.model import Millis
from kohort.wire.codec import Message

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""


class Coordinator(NamedTuple):
    """Coordinator that a request goes to: of a group, or of a transactional ID."""

    key_type: int
    key: str


class ConsumerGroupMetadata(NamedTuple):
    """Group whose offsets a transaction commits, and its member (KIP-447).

    Without a member, the coordinator does not check whether the offsets belong to it.
    """

    group_id: str
    generation_id: int = -1
    """Generation of a classic group, or member epoch of a consumer group."""
    member_id: str = ""
    group_instance_id: str | None = None


class Send(NamedTuple):
    """Request to send. `responded` or `request_failed` must follow, once."""

    request: int
    message: Message
    coordinator: Coordinator
    newest: int | None = None
    """Newest version that may be used; None for the newest that both sides have."""


class Settled(NamedTuple):
    """End of a call of the application."""

    operation: int
    error: KafkaError | None = None


@dataclass(slots=True)
class Actions:
    """What the driver does, in this order."""

    settled: list[Settled] = field(default_factory=list)
    discard: KafkaError | None = None
    """Error with which batches fail that were never sent; None keeps them."""
    discard_retries: bool = False
    """Whether batches that wait to be sent again fail, too."""
    wake: bool = False
    """Whether batches may have become ready to be sent."""
    find: Coordinator | None = None
    """Coordinator to look up. `coordinator_found` or `coordinator_unavailable` must follow."""
    send: Send | None = None
    retry_at: Millis | None = None
    """Time at which `fire` must be called; None if it need not be."""
