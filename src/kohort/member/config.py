"""What a member must know beforehand; names and defaults are Kafka's (facts: consumer configs)."""

from dataclasses import dataclass

from kohort.assignor import Assignor
from kohort.model import Millis

_GRACE_MS: Millis = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyConfig:
    """What both protocols need."""

    group_id: str
    instance_id: str | None = None
    max_poll_interval_ms: Millis = 300_000
    retry_backoff_ms: Millis = 100
    retry_backoff_max_ms: Millis = 1_000
    rack_id: str | None = None

    @property
    def is_static(self) -> bool:
        """KIP-345: the member keeps its place in the group over a restart."""
        return self.instance_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig(AnyConfig):
    """Of a classic group: `assignors` in order of preference; the group takes the first that all its members offer."""

    assignors: tuple[Assignor, ...]
    session_timeout_ms: Millis = 45_000
    heartbeat_interval_ms: Millis = 3_000

    @property
    def heartbeat_timeout_ms(self) -> Millis:
        """How long a heartbeat may stay unanswered. What is left of the session is for finding the next coordinator.

        A machine that is gone says nothing, and its successor may have begun the session anew at once: who waits for
        the whole session at the old address is thrown out at the new one.
        """
        return (self.session_timeout_ms + self.heartbeat_interval_ms) // 2

    @property
    def answer_timeout_ms(self) -> Millis:
        """How long JoinGroup and SyncGroup may be held: the rebalance timeout, and then the answer travels."""
        return self.max_poll_interval_ms + _GRACE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig(AnyConfig):
    """Of a consumer group: the coordinator says how long the session lasts and how often to send a heartbeat."""

    member_id: str
    """KIP-1082: made by the client, unique to this process and kept while it lives."""
    server_assignor: str | None = None
    """group.remote.assignor; None leaves it to the coordinator."""
    client_assignors: tuple[Assignor, ...] = ()
    """group.local.assignors, in order of preference: by which the member can compute for the whole group."""
    weight: float | None = None
    """group.member.weight: how much it wants beside others; 0 for nothing, None to say nothing of it."""
