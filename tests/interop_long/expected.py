"""Tests that need not pass against our broker, and why. Reviewed by hand, against Apache Kafka's own result."""

from __future__ import annotations

EXPECTED: dict[str, dict[str, str]] = {"kafka-python": {}, "librdkafka": {}}
