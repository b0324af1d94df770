"""One member of a classic group."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.events import MemberFacts
from kohort.model import Millis
from kohort.wire.join_group import JoinGroupRequestProtocol


@dataclass(slots=True)
class Member:
    """What the group knows of a member.

    Everything but `session_deadline`, `is_new` and the protocols that were not chosen is durable from the moment that
    its generation is written.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: Mapping[str, bytes]
    """What it said to each assignor that it supports, by name, the preferred one first."""
    assignment: bytes = b""
    session_deadline: Millis = field(default=0, compare=False)
    """When the session ends unless the member is heard of; a heartbeat only moves this."""
    heard_at: Millis = field(default=0, compare=False)
    """When its last heartbeat came, or its generation began; 0 where no heartbeat is held."""
    beat_at: Millis = field(default=0, compare=False)
    """When its last heartbeat came; 0 where its generation has had none."""
    released_at: Millis = field(default=0, compare=False)
    """When its last heartbeat that was held was answered."""
    ticked_at: Millis = field(default=0, compare=False)
    """When its last heartbeat came that the client sent by its clock; 0 where none is known."""
    rhythm_ms: Millis = field(default=0, compare=False)
    """How often it sends heartbeats, as learned from them; 0 for unknown."""
    strikes: int = field(default=0, compare=False)
    """Holds of its heartbeats in a row that its client did not wait for."""
    client: ClientKind = field(default=ClientKind.OTHER, compare=False)
    """What it runs; unknown after a failover until it joins again."""
    asked_since: Millis = field(default=0, compare=False)
    """Since when its heartbeats are answered with an error, to have the next sooner than by the client's rhythm; 0
    where the last was not."""
    refusals: int = field(default=0, compare=False)
    """How many heartbeats in a row were answered with that error."""
    joined_at: Millis = field(default=0, compare=False)
    """When its last JoinGroup came; 0 after a failover."""
    is_new: bool = False
    """It waits for the answer to its first join: it has no generation yet, so it cannot send heartbeats."""

    @property
    def facts(self) -> MemberFacts:
        """Who it is, for the recorder."""
        return MemberFacts(self.member_id, self.client_id, self.client_host, self.instance_id)

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it likes best; it must support one."""
        return next(name for name in self.protocols if name in candidates)


def protocols_of(offered: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """By name and in order of preference; of a name given twice the first counts, as in Kafka."""
    protocols: dict[str, bytes] = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, protocol.metadata)
    return protocols
