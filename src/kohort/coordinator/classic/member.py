"""A member of a classic group."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kohort.coordinator.client_kind import ClientKind
from kohort.coordinator.prompt import ClassicHeartbeats
from kohort.group_events import MemberFacts
from kohort.model import Millis
from kohort.wire.messages.join_group import JoinGroupRequestProtocol


@dataclass(slots=True)
class Member:
    """State of one member.

    Everything but `session_deadline`, `is_new`, the fields that follow from its heartbeats and client,
    and the protocols that were not chosen is durable once its generation is written.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: Mapping[str, bytes]
    """Its subscription for each assignor that it supports, by name in order of preference."""
    assignment: bytes = b""
    session_deadline: Millis = field(default=0, compare=False)
    """Time at which the session ends; a heartbeat only moves this deadline."""
    heartbeats: ClassicHeartbeats = field(default_factory=ClassicHeartbeats, compare=False)
    """What its heartbeats show; unused if no heartbeats are held."""
    client: ClientKind = field(default=ClientKind.OTHER, compare=False)
    """Client that it runs; unknown after a failover until it joins again."""
    joined_at: Millis = field(default=0, compare=False)
    """Time of its last JoinGroup; 0 after a failover."""
    is_new: bool = False
    """Whether it waits for the answer to its first join: without a generation it cannot send heartbeats."""

    @property
    def facts(self) -> MemberFacts:
        """Identity of the member, for the recorder."""
        return MemberFacts(self.member_id, self.client_id, self.client_host, self.instance_id)

    @property
    def last_heard(self) -> Millis | None:
        """Time from which its session runs, usually that of its last heartbeat; None if it has no session yet."""
        return self.session_deadline - self.session_timeout_ms if self.session_deadline else None

    def vote(self, candidates: Collection[str]) -> str:
        """Return its preferred candidate; it must support at least one."""
        return next(name for name in self.protocols if name in candidates)


def protocols_of(offered: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    """Return subscriptions by name, in order of preference; of a repeated name the first counts, as in Kafka."""
    protocols: dict[str, bytes] = {}
    for protocol in offered:
        protocols.setdefault(protocol.name, protocol.metadata)
    return protocols
