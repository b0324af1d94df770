"""Background work on logs: retention and compaction."""

from kohort.broker.maintenance.cleaner import Cleaner
from kohort.broker.maintenance.retention import Retention

__all__ = ["Cleaner", "Retention"]
