"""What an operator may set of the group coordinator: Kafka's names, less their dots, and Kafka's defaults."""

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
    """The settings of one coordinator; the broker checks what users give before it gets here."""

    min_session_timeout_ms: Millis = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: Millis = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: Millis = 3_000
    """group.initial.rebalance.delay.ms"""
    max_size: int = 2**31 - 1
    """group.max.size"""
    new_member_join_timeout_ms: Millis = 300_000
    """How long a member that never got an answer may wait in a rebalance; fixed in Kafka."""
    max_pending_members: int = 10_000
    """Member ids handed out per group and not used yet; beyond, the oldest is forgotten. Kafka has no bound."""
    max_subscription_bytes: int = 1 << 20
    """What one member may say to all its assignors. Kafka takes any, and then cannot write the group's generation."""
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size"""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    """group.consumer.migration.policy"""
    consumer_regex_refresh_interval_ms: Millis = 600_000
    """group.consumer.regex.refresh.interval.ms"""
    heartbeat_hold_ms: Millis = 0
    """group.heartbeat.hold.ms: the longest that a heartbeat waits for news; 0, as in Kafka, for not at all."""
    disconnect_grace_ms: Millis = 0
    """group.disconnect.grace.ms: how long a dynamic member whose connection is gone may stay away; 0, as in Kafka, for
    its session, and -1 for as long as its own heartbeats suggest."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes; as in Kafka it counts characters."""
    offsets_retention_ms: Millis = 10_080 * 60_000
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: Millis = 600_000
    """offsets.retention.check.interval.ms"""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much members want beside others, by patterns of their ids."""

    patterns: tuple[tuple[str, float], ...] = ()
    """An id, or the beginning of ids and a `*`, with its weight; the first that fits counts. 0 drains a member."""

    def of(self, *ids: str | None) -> float | None:
        """The weight of a member with these ids (instance id, client id); None where nothing is said of it."""
        for pattern, weight in self.patterns:
            if any(_fits(pattern, one) for one in ids if one is not None):
                return weight
        return None


def _fits(pattern: str, text: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


EVEN = Weights()
"""Each member wants what it says itself, else as much as everybody else."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What counts for one consumer group: what it sets for itself, else what the broker sets for all."""

    session_timeout_ms: Millis = 45_000
    """consumer.session.timeout.ms"""
    heartbeat_interval_ms: Millis = 5_000
    """consumer.heartbeat.interval.ms"""
    assignment_interval_ms: Millis = 1_000
    """consumer.assignment.interval.ms: the least time between two target assignments (KIP-1263); 0 for none."""
    assignor: str | None = None
    """The server assignor that the group uses whatever its members ask for; None to let them ask. Kafka has none."""
    weights: Weights = EVEN
    """consumer.member.weights; Kafka has none."""


DEFAULT_SETTINGS = GroupSettings()
