"""Events that a broker of the test kit reports: what its peers asked, what it answered, and what the kit did to both.

Faults, checks and reports use the same stream. An event of one broker is reported before the next one happens, so the
order of the stream is the order of the events at that broker. Pure values: times are the broker's, in milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kohort.coordinator import GroupRecord
from kohort.group_events import GroupEvent
from kohort.model import Millis
from kohort.wire.codec import Message


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A client connected. `connection` is unique in the process."""

    at: Millis
    broker: int
    connection: int
    peer: str


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """A connection ended; `by_broker` tells whether the broker or the kit closed it."""

    at: Millis
    broker: int
    connection: int
    by_broker: bool


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """A decoded request, before the broker handles it. `request_id` is unique in the process."""

    at: Millis
    broker: int
    connection: int
    request_id: int
    client_id: str
    version: int
    request: Message


@dataclass(frozen=True, slots=True)
class AnswerSent:
    """The answer that the peer receives; a fault may have changed it."""

    at: Millis
    broker: int
    connection: int
    request_id: int
    response: Message


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The broker did the work, or refused it, but the peer never receives the answer. `response` is None if unknown."""

    at: Millis
    broker: int
    connection: int
    request_id: int
    response: Message | None
    reason: str


@dataclass(frozen=True, slots=True)
class CoordinatorStarted:
    """A coordinator of a partition of `__consumer_offsets` begins, from what its log has.

    What an earlier coordinator appended, and acknowledged to nobody, may be lost.
    """

    at: Millis
    broker: int
    partition: int


@dataclass(frozen=True, slots=True)
class RecordsAppended:
    """Records that a coordinator appended to its partition of `__consumer_offsets`."""

    at: Millis
    broker: int
    partition: int
    records: Sequence[GroupRecord]


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """An event that the coordinator reports to the rebalance journal, with its cause."""

    at: Millis
    broker: int
    event: GroupEvent


@dataclass(frozen=True, slots=True)
class KitActed:
    """An action of the test kit: a fault that was applied, time that was advanced, a snapshot that was restored.

    `what` is a sentence for reports. `groups` and `topics` are those whose history starts anew with this event, because
    the kit took state back (a restored snapshot, a topic that was made anew).
    """

    at: Millis
    broker: int
    what: str
    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()


Event = (
    ConnectionOpened
    | ConnectionClosed
    | RequestReceived
    | AnswerSent
    | AnswerLost
    | CoordinatorStarted
    | RecordsAppended
    | GroupChanged
    | KitActed
)

Observer = Callable[[Event], None]
"""Receives each event on the event loop of the broker. It must not block and must not raise."""
