"""Topic configs that a log uses, with Kafka's names and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.errors import ConfigError
from kohort.model import Millis

_DAY: Millis = 86_400_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic configs of one log. Sizes are in bytes; -1 means no limit."""

    segment_bytes: int = 1 << 30
    segment_ms: Millis = 7 * _DAY
    retention_bytes: int = -1
    retention_ms: Millis = 7 * _DAY
    deletes: bool = True
    """Whether cleanup.policy contains `delete`: only then does retention apply."""
    compacts: bool = False
    """Whether cleanup.policy contains `compact`: only then may offsets be missing."""
    producer_expiration_ms: Millis = _DAY
    delete_retention_ms: Millis = _DAY
    """Time for which a tombstone is retained after compaction first finds it."""
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: Millis = 0
    max_compaction_lag_ms: Millis = 2**63 - 1

    @property
    def roll_ms(self) -> Millis:
        """Age at which a segment is full, so that compaction can process it."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> "LogConfig":
        """Parse a topic's configs; missing ones have their defaults. Raises ConfigError."""
        defaults = cls()
        ratio = _fraction(configs, "min.cleanable.dirty.ratio", defaults.min_cleanable_ratio)
        policies = [policy.strip() for policy in configs.get("cleanup.policy", "delete").split(",")]
        return cls(
            segment_bytes=max(1, _number(configs, "segment.bytes", defaults.segment_bytes)),
            segment_ms=_number(configs, "segment.ms", defaults.segment_ms),
            retention_bytes=_number(configs, "retention.bytes", defaults.retention_bytes),
            retention_ms=_number(configs, "retention.ms", defaults.retention_ms),
            deletes="delete" in policies,
            compacts="compact" in policies,
            producer_expiration_ms=_number(configs, "producer.id.expiration.ms", defaults.producer_expiration_ms),
            delete_retention_ms=_number(configs, "delete.retention.ms", defaults.delete_retention_ms),
            min_cleanable_ratio=ratio,
            min_compaction_lag_ms=_number(configs, "min.compaction.lag.ms", defaults.min_compaction_lag_ms),
            max_compaction_lag_ms=_number(configs, "max.compaction.lag.ms", defaults.max_compaction_lag_ms),
        )


def _number(configs: Mapping[str, str], name: str, default: int) -> int:
    text = configs.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"the topic config {name} must be a whole number, not {text!r}") from None


def _fraction(configs: Mapping[str, str], name: str, default: float) -> float:
    text = configs.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"the topic config {name} must be a number, not {text!r}") from None
