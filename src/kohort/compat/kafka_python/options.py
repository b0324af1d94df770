"""Options of kafka-python 3.0, with its defaults."""

from collections.abc import Mapping
from typing import Any

from kohort.compat import LibraryOptions, assignors, milliseconds, servers
from kohort.compat.kafka_python.structs import IsolationLevel

_COMMON: dict[str, Any] = {
    "bootstrap_servers": "localhost",
    "client_id": "kohort",
    "request_timeout_ms": 30_000,
    "retry_backoff_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "metadata_max_age_ms": 300_000,
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30_000,
    "allow_auto_create_topics": True,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_password": None,
    "ssl_crlfile": None,
    "ssl_ciphers": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_oauth_token_provider": None,
}
_INEFFECTIVE: dict[str, Any] = {
    "api_version": None,
    "bootstrap_timeout_ms": 30_000,
    "client_dns_lookup": "use_all_dns_ips",
    "connections_max_idle_ms": 540_000,
    "kafka_client": None,
    "max_in_flight_requests_per_connection": 5,
    "metric_reporters": [],
    "metrics_enabled": True,
    "receive_buffer_bytes": None,
    "receive_message_max_bytes": 100_000_000,
    "selector": None,
    "send_buffer_bytes": None,
    "sasl_kerberos_service_name": "kafka",
    "socket_options": None,
    "sock_chunk_bytes": None,
    "sock_chunk_buffer_count": None,
}
_UNSUPPORTED = {
    "proxy_url": "the client connects without a proxy.",
    "socks5_proxy": "the client connects without a proxy.",
    "sasl_kerberos_name": "Kerberos (GSSAPI) is not available.",
    "sasl_kerberos_domain_name": "Kerberos (GSSAPI) is not available.",
}
_METRICS = frozenset({"metrics_enabled"})
_TRANSLATIONS = {"bootstrap_servers": servers}

_RESETS = {"smallest": "earliest", "largest": "latest"}


def _reset(policy: str) -> str:
    policy = _RESETS.get(policy, policy)
    return policy if policy in ("earliest", "latest") or policy.startswith("by_duration:") else "none"


def _isolation_level(level: Any) -> Any:
    if isinstance(level, int) and level in list(IsolationLevel):
        return IsolationLevel(level).name.lower()
    return level.lower() if isinstance(level, str) else level


CONSUMER = LibraryOptions(
    "kafka-python",
    {
        **_COMMON,
        **_INEFFECTIVE,
        **dict.fromkeys(_UNSUPPORTED),
        "client_rack": "",
        "group_id": None,
        "group_instance_id": None,
        "key_deserializer": None,
        "value_deserializer": None,
        "fetch_max_wait_ms": 500,
        "fetch_min_bytes": 1,
        "fetch_max_bytes": 52_428_800,
        "max_partition_fetch_bytes": 1_048_576,
        "auto_offset_reset": "latest",
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 5_000,
        "check_crcs": True,
        "isolation_level": "read_uncommitted",
        "partition_assignment_strategy": ("range", "roundrobin"),
        "max_poll_records": 500,
        "max_poll_interval_ms": 300_000,
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "consumer_timeout_ms": float("inf"),
        "exclude_internal_topics": True,
        "default_offset_commit_callback": None,
        "enable_incremental_fetch_sessions": True,
        "metric_group_prefix": "consumer",
    },
    ineffective=[
        *(_INEFFECTIVE.keys() - _METRICS),
        "default_offset_commit_callback",
        "enable_incremental_fetch_sessions",
        "metric_group_prefix",
    ],
    own=_METRICS,
    unsupported=_UNSUPPORTED,
    translations={
        **_TRANSLATIONS,
        "auto_offset_reset": _reset,
        "consumer_timeout_ms": milliseconds,
        "isolation_level": _isolation_level,
        "partition_assignment_strategy": assignors,
    },
)

PRODUCER = LibraryOptions(
    "kafka-python",
    {
        **_COMMON,
        **_INEFFECTIVE,
        **dict.fromkeys(_UNSUPPORTED),
        "key_serializer": None,
        "value_serializer": None,
        "enable_idempotence": None,
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
        "delivery_timeout_ms": 120_000,
        "acks": -1,
        "compression_type": None,
        "retries": float("inf"),
        "batch_size": 16_384,
        "linger_ms": 0,
        "buffer_memory": 33_554_432,
        "partitioner": None,
        "max_block_ms": 60_000,
        "max_request_size": 1_048_576,
        "max_in_flight_requests_per_connection": 5,
    },
    ineffective=[
        *(_INEFFECTIVE.keys() - {"max_in_flight_requests_per_connection"} - _METRICS),
        "retries",
    ],
    own=["key_serializer", "value_serializer", *_METRICS],
    unsupported=_UNSUPPORTED,
    translations=_TRANSLATIONS,
)

ADMIN = LibraryOptions(
    "kafka-python",
    {
        **_COMMON,
        **_INEFFECTIVE,
        **dict.fromkeys(_UNSUPPORTED),
        "allow_auto_create_topics": False,
    },
    ineffective=_INEFFECTIVE,
    unsupported=_UNSUPPORTED,
    translations=_TRANSLATIONS,
)


def read_producer(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return Kohort's options of a producer."""
    found = PRODUCER.read(given)
    if "transactional_id" not in found:
        del found["transaction_timeout_ms"]
    return found
