"""The client's options as keyword arguments, for editors and static type checkers.

A TypedDict cannot be derived from a dataclass, so names and types are repeated here. A test
compares them with `options.py`, which has each option's description and default.
"""

from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any, Required, TypedDict

from kohort.assignor import Assignor
from kohort.client.options import Bytes
from kohort.model import Millis
from kohort.security import Secret


class SecurityKeywords(TypedDict, total=False):
    """Keywords of SecurityOptions."""

    security_protocol: str
    ssl_cafile: str | None
    ssl_cadata: str | None
    ssl_certfile: str | None
    ssl_certdata: str | None
    ssl_keyfile: str | None
    ssl_keydata: str | Secret | None
    ssl_password: str | Secret | None
    ssl_crlfile: str | None
    ssl_ciphers: str | None
    ssl_check_hostname: bool
    ssl_verify_certificate: bool
    ssl_context: SSLContext | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | Secret | None
    sasl_oauth_token: str | Secret | None
    sasl_oauth_token_provider: Any
    sasl_oauth_token_endpoint_url: str | None
    sasl_oauth_client_id: str | None
    sasl_oauth_client_secret: str | Secret | None
    sasl_oauth_scope: str | None
    sasl_oauth_extensions: str | Mapping[str, str] | None
    sasl_aws_region: str | None


class ClientKeywords(SecurityKeywords, total=False):
    """Keywords of ClientOptions. `Cluster.of` takes bootstrap_servers as an argument."""

    client_id: str
    request_timeout_ms: Millis
    default_api_timeout_ms: Millis
    retry_backoff_ms: Millis
    retry_backoff_max_ms: Millis
    reconnect_backoff_ms: Millis
    reconnect_backoff_max_ms: Millis
    metadata_max_age_ms: Millis
    socket_connection_setup_timeout_ms: Millis
    allow_auto_create_topics: bool
    metrics_sample_window_ms: Millis
    metrics_num_samples: int


class MembershipKeywords(ClientKeywords, total=False):
    """Keywords of GroupOptions.

    `Membership.join` takes group_id as an argument, and bootstrap_servers from its Cluster.
    """

    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    group_local_assignors: str | Sequence[str | Assignor]
    group_member_weight: float | None
    session_timeout_ms: Millis
    heartbeat_interval_ms: Millis
    max_poll_interval_ms: Millis
    partition_assignment_strategy: str | Sequence[str | Assignor]
    client_rack: str


class ConsumerKeywords(MembershipKeywords, total=False):
    """Keywords of ConsumerOptions."""

    bootstrap_servers: Required[str | Sequence[str]]
    group_id: str | None
    auto_offset_reset: str
    exclude_internal_topics: bool
    enable_auto_commit: bool
    auto_commit_interval_ms: Millis
    max_poll_records: int
    consumer_timeout_ms: Millis | None
    fetch_min_bytes: Bytes
    fetch_max_bytes: Bytes
    fetch_max_wait_ms: Millis
    max_partition_fetch_bytes: Bytes
    check_crcs: bool
    key_deserializer: Any
    value_deserializer: Any
    interceptors: Sequence[Any]
    isolation_level: str
    on_statistics: Any
    statistics_interval_ms: Millis


class ProducerKeywords(ClientKeywords, total=False):
    """Keywords of ProducerOptions."""

    bootstrap_servers: Required[str | Sequence[str]]
    acks: str | int
    enable_idempotence: bool
    compression_type: str
    key_serializer: Any
    value_serializer: Any
    interceptors: Sequence[Any]
    partitioner: Any
    batch_size: Bytes
    linger_ms: Millis
    buffer_memory: Bytes
    max_request_size: Bytes
    max_block_ms: Millis
    delivery_timeout_ms: Millis
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: Millis
    on_statistics: Any
    statistics_interval_ms: Millis


class AdminKeywords(ClientKeywords, total=False):
    """Keywords of AdminOptions."""

    bootstrap_servers: Required[str | Sequence[str]]
