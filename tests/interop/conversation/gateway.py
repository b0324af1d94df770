"""Where Apache Kafka behind a gateway answers otherwise than without it. docs/gateway.md tells the same to users."""

from __future__ import annotations

from tests.interop.conversation.expected import Expected

_ADDRESSES = "The addresses of brokers are the gateway's."

INTENDED = (
    Expected(_ADDRESSES, field="*port"),
    Expected(
        "SaslHandshake begins at version 1.",
        "api-versions",
        field="api_keys.17.min_version",
        kafka=0,
        kohort=1,
    ),
    Expected(
        "In responses without news, `heartbeat_interval_ms` is short, so that the next heartbeat can be held.",
        field="heartbeat_interval_ms",
        kohort_within=range(1, 1_001),
    ),
)
"""Differences that the gateway makes."""

TWO_CLUSTERS = (
    Expected("Each has a directory of its own.", field="*.log_dir"),
    Expected("They measure the disk one after the other.", field="*_bytes"),
    Expected("Each has its own log of metadata.", field="finalized_features_epoch"),
)
"""Differences of any two clusters. Some need not occur."""
