"""Settings of the transaction coordinator, with Kafka's names (less their dots) and Kafka's defaults."""

from dataclasses import dataclass

from kohort.model import Millis


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of one coordinator; the broker validates user input before it gets here."""

    max_timeout_ms: Millis = 900_000
    """transaction.max.timeout.ms"""
    id_expiration_ms: Millis = 604_800_000
    """transactional.id.expiration.ms"""
    id_expiration_check_interval_ms: Millis = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
