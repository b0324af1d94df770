"""What the checks remember of clients, groups and topics. All of it is bounded by what lives, or by a number."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.testing.events import AnswerSent, Event, RecordsAppended, RequestReceived
from kohort.wire.messages.join_group import JoinGroupResponseMember

K = TypeVar("K")
V = TypeVar("V")

Partitions = frozenset[TopicPartition]
NONE: Partitions = frozenset()


class Recent(OrderedDict[K, V], Generic[K, V]):
    """A dictionary that forgets its oldest entries."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


@dataclass(slots=True)
class Connection:
    """An open connection."""

    number: int
    peer: str
    is_whole: bool
    """Whether its beginning was observed."""
    since: int
    """Number of its first event in the stream."""
    client: Client | None = None
    asked: dict[int, Asked] = field(default_factory=dict)
    """Requests without an answer, by request id."""
    members: dict[str, str] = field(default_factory=dict)
    """Member ID that it last received in each group."""
    handed: dict[str, Handed] = field(default_factory=dict)
    """Member ID that it was handed in each group (KIP-394), and has not used."""
    read: set[TopicPartition] = field(default_factory=set)
    """Partitions that it fetched while a member of its client owned them."""
    is_free: bool = False
    """Whether it fetched a partition that no member of its client ever had: it may be that of another consumer."""
    replaced: deque[Replaced] = field(default_factory=lambda: deque(maxlen=3))
    """Members of its client that may have been dead when they were replaced, unless it sends another request."""


@dataclass(slots=True, eq=False)
class Replaced:
    """A static member that another one replaced, and the answer that told it."""

    group_id: str
    member_id: str
    instance_id: str
    answer: AnswerSent
    is_counted: bool = False


@dataclass(slots=True)
class Handed:
    """A member ID that a client was handed, and how often it asked for another one since."""

    member_id: str
    first: Event
    times: int = 0


@dataclass(slots=True)
class Asked:
    """A request without an answer; `note` is what a rule noted when it arrived."""

    event: RequestReceived
    number: int
    """Number of the event in the stream."""
    is_of_member: bool = False
    """Whether the member that sent it was one when it arrived."""
    note: Any = None


@dataclass(slots=True)
class Former:
    """A member that was removed although it did not leave."""

    group_id: str
    member_id: str
    partitions: Partitions
    rebalance_ms: Millis
    told: Event | None = None
    """First answer that told its client."""


@dataclass(slots=True, eq=False)
class Client:
    """All connections with one client ID."""

    client_id: str
    is_whole: bool = True
    """Whether all that it received was observed."""
    connections: set[int] = field(default_factory=set)
    members: set[tuple[str, str]] = field(default_factory=set)
    """Group and ID of each living member with this client ID."""
    reach: dict[TopicPartition, int] = field(default_factory=dict)
    """Largest offset of each partition that it was delivered, found or sought."""
    listed: dict[TopicPartition, int] = field(default_factory=dict)
    """Last answer to ListOffsets for each partition."""
    former: Former | None = None
    """Its last member, if that was removed and the client has not joined since."""
    fetched_at: Millis = -1
    fetched: RequestReceived | None = None
    """Its last Fetch."""

    def learn(self, place: TopicPartition, offset: int) -> None:
        """Record that the client may continue at that offset."""
        if offset > self.reach.get(place, -1):
            self.reach[place] = offset


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A partition that a member has given up."""

    reported: Event
    since: Event
    """Event since which it may not fetch the partition: its report, or its latest assignment after that."""


@dataclass(slots=True, eq=False)
class Member:
    """A living member of a group, as the broker and the member itself see it."""

    member_id: str
    group_id: str
    client: Client
    connection: int
    instance_id: str | None
    is_classic: bool
    since: Event
    generation: int = -1
    """Generation or member epoch that it was told last."""
    told_by: tuple[int, int] = (-1, -1)
    """Broker that told it its member epoch last, and the number of that event."""
    session_ms: Millis | None = None
    rebalance_ms: Millis | None = None
    topics: frozenset[str] | None = None
    """Topics by name; None for an expression, or if they are unknown."""
    led: Sequence[JoinGroupResponseMember] = ()
    """Members and their subscriptions in the answer to its last JoinGroup, if it leads."""
    assigned: Partitions = NONE
    is_assigned: bool = False
    """Whether its assignment of this generation is known to it."""
    keeps: Partitions | None = None
    """Partitions that it reported to keep in its last JoinGroup; None once it knows its new assignment."""
    giving_up: Partitions = NONE
    """Partitions that it must give up, and has not reported as given up."""
    given_up: dict[TopicPartition, GivenUp] = field(default_factory=dict)
    ever: set[TopicPartition] = field(default_factory=set)
    """All partitions that it was assigned."""
    is_known: bool = True
    """Whether all its assignments are known."""
    unnamed: AnswerSent | None = None
    """Answer with an assignment to topics whose names no client had asked for yet."""
    heard_at: Millis = -1
    heard: RequestReceived | None = None
    broker: int = -1
    told_of_rebalance: int = 0
    """Number of answers that told it of the present rebalance."""
    told: Event | None = None
    told_to_give_up: Event | None = None
    heartbeats_since_told: int = 0
    joined: Event | None = None
    """Answer to its last JoinGroup; None after its SyncGroup."""
    claims: tuple[int, Partitions] | None = None
    """Generation and partitions that it reported to own in its last JoinGroup, if its assignor is cooperative."""
    abandoned: RequestReceived | None = None
    """JoinGroup by which the same connection asked for another membership, if nothing was heard of this one since."""
    is_free: bool = False
    """Whether its client may take another membership: it was told that this one is over, or asked to leave."""
    failed_positions: dict[TopicPartition, Event] = field(default_factory=dict)
    """Partitions for which an OffsetFetch failed, and none succeeded since."""


@dataclass(slots=True)
class Version:
    """A value of a committed offset, in the order of the coordinator's log."""

    number: int
    offset: int | None
    is_acknowledged: bool = False


@dataclass(slots=True)
class Acknowledged:
    """The last acknowledged commit of a member, and the answer's number in the stream."""

    offset: int
    request: RequestReceived
    answered: int


@dataclass(slots=True, eq=False)
class Committed:
    """Committed offset of a partition in a group."""

    versions: deque[Version] = field(default_factory=lambda: deque(maxlen=16))
    acknowledged: Acknowledged | None = None

    @property
    def offset(self) -> int | None:
        """Return the newest offset."""
        return self.versions[-1].offset if self.versions else None


@dataclass(slots=True)
class Holder:
    """Last owner of a partition of a consumer group, and its epoch."""

    member_id: str
    is_described: bool
    """Whether its description in the log was observed; otherwise, `instance_id` is unknown."""
    instance_id: str | None
    epoch: int
    event: RecordsAppended

    def may_return_as(self, instance_id: str | None) -> bool:
        """Return whether a member with that instance ID may be the same static member after a restart."""
        return instance_id is not None and (not self.is_described or instance_id == self.instance_id)


@dataclass(slots=True)
class StoredMember:
    """A member of a consumer group in the coordinator's log."""

    epoch: int
    partitions: dict[tuple[UUID, int], int]
    """Assigned partitions with their assignment epochs, and those that it must revoke."""
    event: RecordsAppended


@dataclass(slots=True)
class Run:
    """Rebalances that the client of one connection caused in a row: the time and event of each."""

    connection: int
    times: deque[tuple[Millis, Event]]
    subscriptions: set[object] = field(default_factory=set)
    """What the client subscribed to when it changed its subscription."""


@dataclass(slots=True, eq=False)
class Group:
    """A group, from its answers and from its coordinator's records."""

    group_id: str
    broker: int = -1
    partition: int | None = None
    """Its partition of `__consumer_offsets`."""
    is_consumer: bool = False
    """Whether it is a group of KIP-848, whose coordinator computes the assignment."""
    protocol_type: str = ""
    """Protocol type of its classic members."""
    has_records: bool = False
    """Whether its coordinator's records are observed."""
    members: dict[str, Member] = field(default_factory=dict)
    gone: Recent[str, Event] = field(default_factory=lambda: Recent(256))
    """Members that were removed, while their coordinator serves."""
    generation: int = -1
    """Generation, or group epoch, in the coordinator's log."""
    stored: RecordsAppended | None = None
    stored_in: frozenset[str] = frozenset()
    """Members that joined that generation, if it is one of a classic group."""
    plans: deque[tuple[int, dict[str, bytes], Event]] = field(default_factory=lambda: deque(maxlen=4))
    """Assignments that leaders computed, with their generation, the latest last."""
    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    commits: Recent[int, Asked] = field(default_factory=lambda: Recent(1_000))
    """Commits without an answer, by request id."""
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """Member that was assigned each partition last."""
    stored_members: dict[str, StoredMember] = field(default_factory=dict)
    instance_ids: dict[str, str | None] = field(default_factory=dict)
    """Instance ID of each member whose description in the log was observed; None for a dynamic member."""
    holders: Recent[tuple[UUID, int], Holder] = field(default_factory=lambda: Recent(100_000))
    dark: dict[TopicPartition, Millis] = field(default_factory=dict)
    """Partitions without an owner, with the time since when."""
    is_changed: bool = False
    """Whether the dark partitions must be computed anew."""
    run: Run | None = None
    asked_on: int = -1
    """Connection of the last request that may have changed the group."""
    connections: Recent[str, int] = field(default_factory=lambda: Recent(256))
    """Connection on which each member joined last."""
    fenced: Recent[str, deque[tuple[Millis, str, Event]]] = field(default_factory=lambda: Recent(256))
    """Members of each instance ID that learned that another one replaced them, with the times."""
    seen: int = 0
    """Number of the last event of this group."""

    def of(self, place: TopicPartition) -> Committed:
        """Return the committed offset of a partition."""
        found = self.committed.get(place)
        if found is None:
            found = self.committed[place] = Committed()
        return found

    def living(self, event: RequestReceived, member_id: str) -> Member | None:
        """Return the member that sent this request; None if another client uses its ID."""
        member = self.members.get(member_id)
        return member if member is not None and member.client.client_id == event.client_id else None

    def forget_log(self) -> None:
        """Forget the generation and the members in the log: the next coordinator may not find the last records."""
        self.generation, self.stored = -1, None
        self.stored_members.clear()
        self.instance_ids.clear()
        self.holders.clear()

    def coordinator_changed(self) -> None:
        """Forget what only its coordinator knew: records that no answer acknowledged may be lost with it."""
        self.gone.clear()
        self.run = None
        self.forget_log()
        self.fenced.clear()
        for member in self.members.values():
            member.heard = None
            member.told_of_rebalance = 0
            member.joined = None
            member.abandoned = None


class Topics:
    """Names, IDs and partition counts of topics, as brokers described them."""

    def __init__(self) -> None:
        self.names: Recent[UUID, str] = Recent(100_000)
        self.counts: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._retired: Recent[UUID, str] = Recent(10_000)
        self.doubtful: Recent[str, int] = Recent(10_000)
        """Topics that were deleted or made anew: what a client knows of them may be about the earlier one.

        Each has the number of the event at which that was last known.
        """

    def described(self, name: str, topic_id: UUID, partitions: int) -> bool:
        """Record a description; return whether it is that of another topic with the name of an earlier one."""
        self.counts[name] = partitions
        if topic_id == NO_TOPIC_ID:
            return False
        known = self._ids.get(name)
        if known == topic_id or topic_id in self._retired:
            return False
        self.names[topic_id], self._ids[name] = name, topic_id
        if known is None:
            return False
        self._retired[known] = name
        return True

    def deleted(self, name: str) -> None:
        """Record that a topic was deleted."""
        known = self._ids.pop(name, None)
        if known is not None:
            self._retired[known] = name
        self.counts.pop(name, None)

    def name(self, name: str | None, topic_id: UUID) -> str | None:
        """Return the name of a topic; None if only an unknown ID, or that of a deleted topic, is given."""
        if name:
            return name
        return None if topic_id in self._retired else self.names.get(topic_id)

    def changed_since(self, name: str, number: int) -> bool:
        """Return whether the topic was deleted or made anew after that event."""
        return self.doubtful.get(name, 0) > number

    def places(self, topic_partitions: Iterable[Any]) -> Partitions | None:
        """Return partitions that are given by topic ID; None if a topic is unknown."""
        found: set[TopicPartition] = set()
        for topic in topic_partitions:
            name = self.name(None, topic.topic_id)
            if name is None:
                return None
            found.update(TopicPartition(name, partition) for partition in topic.partitions)
        return frozenset(found)
