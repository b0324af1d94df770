"""The configurations in which the play is given, the same for both brokers, by the part of the play."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop.kafka import ApacheKafka, compiled, running_kafka

KAFKAS_OWN = {
    "group.consumer.assignor.offload.enable": "false",
    # For the connection of the broker to itself.
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
}
"""Of Kafka alone. It computes assignments in other threads by default, so that no answer could be foretold."""

_COMMON = {
    # Few, so that all coordinators are soon there.
    "offsets.topic.num.partitions": "5",
    # Records of these scenes have timestamps of their own, and some are old.
    "log.retention.ms": "-1",
    "group.initial.rebalance.delay.ms": "0",
}

_CONSUMER = {
    **_COMMON,
    # Every change of a group is assigned at once.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
}

SUPER_USER = "root"
_USERS = (SUPER_USER, "alice", "bob", "carol", "dave", "erin", "frank", "grace")
"""Users of the listener with SASL; a user's password is the name."""
_LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{SUPER_USER}"'

PARTS: Mapping[str, Mapping[str, str]] = {
    "common": _COMMON,
    "small": {
        **_COMMON,
        "group.initial.rebalance.delay.ms": "600",
        "group.max.size": "2",
        "group.min.session.timeout.ms": "1000",
        "group.max.session.timeout.ms": "40000",
        "offset.metadata.max.bytes": "8",
        "auto.create.topics.enable": "false",
        "message.max.bytes": "2000",
    },
    "consumer": _CONSUMER,
    "upgrade": {**_CONSUMER, "group.consumer.migration.policy": "upgrade"},
    "downgrade": {**_CONSUMER, "group.consumer.migration.policy": "downgrade"},
    "acls": {
        **_COMMON,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    },
    # Alone, because the levels are those of the cluster.
    "features": _COMMON,
    # Alone, because a quota of this host closes new connections.
    "quotas": _COMMON,
    "permissions": {
        **_CONSUMER,
        "auto.create.topics.enable": "false",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Kafka's broker is anonymous to its controller.
        "super.users": f"User:{SUPER_USER};User:ANONYMOUS",
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": " ".join(
            [_LOGIN, f'password="{SUPER_USER}"', *(f'user_{name}="{name}"' for name in _USERS)]
        )
        + ";",
    },
    "telemetry": {**_COMMON, "telemetry.receiver.enable": "true", "telemetry.max.bytes": "2000"},
    "disabled": {**_CONSUMER, "group.consumer.migration.policy": "disabled"},
}

_KAFKAS_OWN_OF_PARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "features": ("", {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}),
    "telemetry": ("TelemetryReceiver", {"metric.reporters": "TelemetryReceiver"}),
}
"""A class of Kafka's own that a part needs, and settings of Kafka alone."""

ADMINS: Mapping[str, str] = {"permissions": SUPER_USER}
"""The user that sets scenes up, in the parts where users authenticate."""

PROMPT_OFF: Mapping[str, str] = {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
"""Kohort as it answers without holding heartbeats and without waiting for members that disconnected."""


@contextlib.contextmanager
def kafka_of(part: str) -> Iterator[ApacheKafka]:
    """Run Apache Kafka with the settings of a part."""
    name, more = _KAFKAS_OWN_OF_PARTS.get(part, ("", {}))
    settings = {**PARTS[part], **KAFKAS_OWN, **more}
    with TemporaryDirectory() as directory:
        plugins = compiled(Path(__file__).parents[1] / f"{name}.java", Path(directory)) if name else None
        with running_kafka(settings, plugins=plugins) as kafka:
            yield kafka
