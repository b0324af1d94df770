"""Requests of the coordinator to the shell around it, and input from the shell to the coordinator."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.timers import Timer
from kohort.group_events import GroupEvent
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.group_log import GroupRecord

Token = Hashable
"""Identifies one request that waits for its reply. The shell creates it; the core only returns it."""

Viewer = tuple[str, str]
"""Principal and address of a client, by which the shell decides about the topics that it may describe."""


@dataclass(slots=True)
class RequestContext:
    """Facts about one request that are not in its body. Immutable by convention: freezing it would double its cost."""

    token: Token
    api_version: int
    client_id: str = ""
    client_host: str = ""
    may_hold: bool = False
    """Whether the shell reports requests that arrive behind this one (`GroupShard.release`). Only then may a heartbeat
    be held."""
    client: ClientKind = ClientKind.OTHER
    viewer: Viewer | None = None
    """Sender of the request. None if all clients may describe every topic."""


@dataclass(slots=True)
class Effects:
    """Append `records` as one batch, replay them, and only then send `replies`.

    A reply sent before its records are durable can acknowledge a commit that a failover forgets.
    """

    records: list[GroupRecord] = field(default_factory=list)
    producer: tuple[int, int] | None = None
    """Producer ID and epoch if the records are part of a transaction: their batch is transactional, and they
    are replayed with the producer ID."""
    replies: dict[Token, Message] = field(default_factory=dict)
    timers: dict[Timer, Millis | None] = field(default_factory=dict)
    """Time at which to fire each timer; None cancels it."""
    events: list[GroupEvent] = field(default_factory=list)
    """What happened to groups and why, for the recorder; dropping events changes nothing."""
