"""Names of librdkafka's options, by what the adapter does with them.

The names and defaults are those of librdkafka's CONFIGURATION.md.
"""

from collections.abc import Mapping

SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.")
"""Prefixes of the options that Kohort's clients read under these names."""

CALLBACKS = frozenset({"error_cb", "stats_cb", "oauth_cb", "on_commit", "on_delivery", "logger"})

OF_ADAPTER = frozenset(
    {
        "auto.commit.interval.ms",
        "delivery.report.only.error",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "queue.buffering.max.messages",
        "statistics.interval.ms",
    }
)
"""Options that the adapter itself implements."""

FLAGS = frozenset(
    {
        "allow.auto.create.topics",
        "check.crcs",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "enable.ssl.certificate.verification",
    }
)
"""Options that are true or false; librdkafka takes `1` and `t`, too."""

SAME: Mapping[str, str] = {
    "allow.auto.create.topics": "allow_auto_create_topics",
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "metadata.broker.list": "bootstrap_servers",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "socket.timeout.ms": "request_timeout_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
"""Options of all clients."""

OF_CONSUMER: Mapping[str, str] = {
    "auto.offset.reset": "auto_offset_reset",
    "check.crcs": "check_crcs",
    "client.rack": "client_rack",
    "enable.auto.commit": "enable_auto_commit",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "fetch.min.bytes": "fetch_min_bytes",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "group.protocol": "group_protocol",
    "group.remote.assignor": "group_remote_assignor",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "isolation.level": "isolation_level",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "partition.assignment.strategy": "partition_assignment_strategy",
    "session.timeout.ms": "session_timeout_ms",
}

OF_PRODUCER: Mapping[str, str] = {
    "acks": "acks",
    "batch.size": "batch_size",
    "compression.codec": "compression_type",
    "compression.type": "compression_type",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "enable.idempotence": "enable_idempotence",
    "linger.ms": "linger_ms",
    "max.in.flight": "max_in_flight_requests_per_connection",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "message.max.bytes": "max_request_size",
    "message.timeout.ms": "delivery_timeout_ms",
    "partitioner": "partitioner",
    "queue.buffering.max.kbytes": "buffer_memory",
    "queue.buffering.max.ms": "linger_ms",
    "request.required.acks": "acks",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "transactional.id": "transactional_id",
}

NO_EFFECT = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "auto.commit.enable",
        "batch.num.messages",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "builtin.features",
        "client.dns.lookup",
        "client.software.name",
        "client.software.version",
        "compression.level",
        "connections.max.idle.ms",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "debug",
        "enable.metrics.push",
        "enable.random.seed",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "group.protocol.type",
        "internal.termination.signal",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.copy.max.bytes",
        "message.send.max.retries",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "offset.store.sync.interval.ms",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "queuing.strategy",
        "receive.message.max.bytes",
        "reconnect.backoff.jitter.ms",
        "request.timeout.ms",
        "retries",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "sticky.partitioning.linger.ms",
        "throttle_cb",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""Options that tune librdkafka itself; programs do the same without them."""

REFUSED: Mapping[str, tuple[object, ...]] = {
    "enable.gapless.guarantee": (False, "false"),
    "enable.sasl.oauthbearer.unsecure.jwt": (False, "false"),
    "https.ca.location": (None, ""),
    "https.ca.pem": (None, ""),
    "offset.store.method": (None, "broker"),
    "offset.store.path": (None, ""),
    "plugin.library.paths": (None, ""),
    "sasl.oauthbearer.config": (None, ""),
    "sasl.oauthbearer.grant.type": (None, "client_credentials"),
    "sasl.oauthbearer.metadata.authentication.type": (None, "none"),
    "ssl.certificate.verify_cb": (None,),
    "ssl.curves.list": (None, ""),
    "ssl.engine.location": (None, ""),
    "ssl.providers": (None, ""),
    "ssl.sigalgs.list": (None, ""),
    "topic.blacklist": (None, ""),
}
"""Options without which a program would do something else, and the values that ask for nothing."""
