"""Settings of the group coordinator, with Kafka's names (less their dots) and Kafka's defaults."""

from dataclasses import dataclass
from enum import Enum

from kohort.model import Millis


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: whether a group that has members may change its protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one coordinator; the broker validates user input before it gets here."""

    min_session_timeout_ms: Millis = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: Millis = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: Millis = 3_000
    """group.initial.rebalance.delay.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
    new_member_join_timeout_ms: Millis = 300_000
    """Maximum time that a member which never got an answer may wait in a rebalance; fixed in Kafka."""
    max_pending_members: int = 10_000
    """Maximum number of unused member IDs per group; beyond it, the oldest is forgotten. Kafka has no bound."""
    max_subscription_bytes: int = 1 << 20
    """Maximum size of a member's subscriptions for all its assignors. Kafka accepts any size, and then cannot write
    the group's generation."""
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size"""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """group.consumer.migration.policy"""
    consumer_regex_refresh_interval_ms: Millis = 600_000
    """group.consumer.regex.refresh.interval.ms"""
    heartbeat_hold_ms: Millis = 0
    """group.heartbeat.hold.ms: maximum time a heartbeat is held; 0, as in Kafka, disables holding."""
    disconnect_grace_ms: Millis = 0
    """group.disconnect.grace.ms: how long a dynamic member may be disconnected. 0, as in Kafka: until its session ends;
    -1: a time derived from the member's own heartbeats."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes; counts characters, as in Kafka."""
    offsets_retention_ms: Millis = 10_080 * 60_000
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: Millis = 600_000
    """offsets.retention.check.interval.ms"""


@dataclass(frozen=True, slots=True)
class Weights:
    """Relative shares that members get, by patterns of their IDs."""

    patterns: tuple[tuple[str, float], ...] = ()
    """Pairs of pattern and weight; a pattern is an ID, or a prefix of IDs followed by `*`. The first match applies.
    Weight 0 drains a member."""

    def of(self, *ids: str | None) -> float | None:
        """Return the weight for a member's IDs (instance ID, client ID); None if no pattern matches."""
        for pattern, weight in self.patterns:
            if any(_fits(pattern, member_id) for member_id in ids if member_id is not None):
                return weight
        return None


def _fits(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


EVEN = Weights()
"""No patterns: each member has the weight that it requests, or by default the same weight as all others."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Effective settings of one consumer group: its own, else the broker's defaults."""

    session_timeout_ms: Millis = 45_000
    """consumer.session.timeout.ms"""
    heartbeat_interval_ms: Millis = 5_000
    """consumer.heartbeat.interval.ms"""
    assignment_interval_ms: Millis = 1_000
    """consumer.assignment.interval.ms: minimum time between two target assignments (KIP-1263); 0 for none."""
    assignor: str | None = None
    """Server assignor that the group uses regardless of its members' requests; None lets members choose. Kafka has
    no such setting."""
    weights: Weights = EVEN
    """consumer.member.weights; Kafka has no such setting."""


DEFAULT_SETTINGS = GroupSettings()
