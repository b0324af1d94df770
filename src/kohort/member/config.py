"""Configuration of a member, with Kafka's names and defaults (facts: consumer configs)."""

from dataclasses import dataclass

from kohort.assignor import Assignor
from kohort.model import Millis

_GRACE_MS: Millis = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyConfig:
    """Settings that both protocols need."""

    group_id: str
    instance_id: str | None = None
    max_poll_interval_ms: Millis = 300_000
    retry_backoff_ms: Millis = 100
    retry_backoff_max_ms: Millis = 1_000
    rack_id: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place in the group across restarts (KIP-345)."""
        return self.instance_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig(AnyConfig):
    """Settings of a classic group's member.

    `assignors` are in order of preference; the group takes the first that all its members offer.
    """

    assignors: tuple[Assignor, ...]
    session_timeout_ms: Millis = 45_000
    heartbeat_interval_ms: Millis = 3_000

    @property
    def heartbeat_timeout_ms(self) -> Millis:
        """Timeout of a heartbeat request. The rest of the session is left to find the next coordinator.

        A machine that fails does not answer, and its successor may have started a new session at once: a
        member that waited for the whole session at the old address would be removed at the new one.
        """
        return (self.session_timeout_ms + self.heartbeat_interval_ms) // 2

    @property
    def answer_timeout_ms(self) -> Millis:
        """Timeout of JoinGroup and SyncGroup requests: the rebalance timeout plus the time for the answer to arrive."""
        return self.max_poll_interval_ms + _GRACE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberConfig(AnyConfig):
    """Settings of a consumer group's member; the coordinator sets the session timeout and the heartbeat interval."""

    member_id: str
    """Member ID (KIP-1082), which the client generates: unique to this process and kept for its lifetime."""
    server_assignor: str | None = None
    """group.remote.assignor; None leaves the choice to the coordinator."""
    client_assignors: tuple[Assignor, ...] = ()
    """group.local.assignors, in order of preference: assignors with which the member can compute for the group."""
    weight: float | None = None
    """group.member.weight: its share relative to other members; 0 for no partitions, None to send no weight."""
