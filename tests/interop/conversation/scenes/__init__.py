"""The scenes; importing them takes them into the play."""

from tests.interop.conversation.scenes import (
    admin,
    brokers,
    consumer_configs,
    consumer_joining,
    consumer_moving,
    consumer_offsets,
    consumer_topics,
    fetch_sessions,
    joining,
    members_in_a_group,
    migrating,
    offsets,
    records,
    small_limits,
    static_members,
    topics,
)

__all__ = [
    "admin",
    "brokers",
    "consumer_configs",
    "consumer_joining",
    "consumer_moving",
    "consumer_offsets",
    "consumer_topics",
    "fetch_sessions",
    "joining",
    "members_in_a_group",
    "migrating",
    "offsets",
    "records",
    "small_limits",
    "static_members",
    "topics",
]
