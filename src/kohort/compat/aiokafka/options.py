"""Options of aiokafka 0.14, with its defaults."""

from collections.abc import Mapping
from typing import Any

from kohort.compat import LibraryOptions, assignors, servers

_COMMON: dict[str, Any] = {
    "bootstrap_servers": "localhost",
    "client_id": "kohort",
    "metadata_max_age_ms": 300_000,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_oauth_token_provider": None,
}
_INEFFECTIVE: dict[str, Any] = {
    "api_version": None,
    "connections_max_idle_ms": 540_000,
    "loop": None,
    "sasl_kerberos_service_name": "kafka",
}
_UNSUPPORTED = {"sasl_kerberos_domain_name": "Kerberos (GSSAPI) is not available."}

CONSUMER = LibraryOptions(
    "aiokafka",
    {
        **_COMMON,
        **_INEFFECTIVE,
        **dict.fromkeys(_UNSUPPORTED),
        "group_id": None,
        "group_instance_id": None,
        "key_deserializer": None,
        "value_deserializer": None,
        "fetch_max_wait_ms": 500,
        "fetch_max_bytes": 52_428_800,
        "fetch_min_bytes": 1,
        "max_partition_fetch_bytes": 1_048_576,
        "auto_offset_reset": "latest",
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5_000,
        "check_crcs": True,
        "partition_assignment_strategy": ("roundrobin",),
        "max_poll_interval_ms": 300_000,
        "rebalance_timeout_ms": None,
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "consumer_timeout_ms": 200,
        "max_poll_records": None,
        "exclude_internal_topics": True,
        "isolation_level": "read_uncommitted",
        "client_rack": None,
    },
    ineffective=[*_INEFFECTIVE, "consumer_timeout_ms", "rebalance_timeout_ms"],
    own=["max_poll_records"],
    unsupported=_UNSUPPORTED,
    translations={"bootstrap_servers": servers, "partition_assignment_strategy": assignors},
)

PRODUCER = LibraryOptions(
    "aiokafka",
    {
        **_COMMON,
        **_INEFFECTIVE,
        **dict.fromkeys(_UNSUPPORTED),
        "acks": None,
        "key_serializer": None,
        "value_serializer": None,
        "compression_type": None,
        "max_batch_size": 16_384,
        "partitioner": None,
        "max_request_size": 1_048_576,
        "linger_ms": 0,
        "enable_idempotence": False,
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
    },
    ineffective=_INEFFECTIVE,
    own=["key_serializer", "value_serializer"],
    unsupported=_UNSUPPORTED,
    translations={"bootstrap_servers": servers},
    renamed={"max_batch_size": "batch_size"},
)

ADMIN = LibraryOptions(
    "aiokafka",
    {**_COMMON, **_INEFFECTIVE, **dict.fromkeys(_UNSUPPORTED)},
    ineffective=_INEFFECTIVE,
    unsupported=_UNSUPPORTED,
    translations={"bootstrap_servers": servers},
)


def read(options: LibraryOptions, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Kohort's options."""
    found = options.read(given)
    if str(found["security_protocol"]).startswith("SASL"):
        found.setdefault("sasl_mechanism", "PLAIN")
    return found


def read_producer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Kohort's options of a producer. Without idempotence aiokafka waits for the leader only."""
    found = read(PRODUCER, given)
    if "transactional_id" in found:
        del found["enable_idempotence"]  # as in aiokafka, it is on
        return {"acks": "all", **found}
    del found["transaction_timeout_ms"]
    return {"acks": "all" if found["enable_idempotence"] else 1, **found}
