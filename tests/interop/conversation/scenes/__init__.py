"""The scenes; importing them takes them into the play."""

from tests.interop.conversation.scenes import (
    brokers,
    joining,
    members_in_a_group,
    offsets,
    records,
    small_limits,
    static_members,
    topics,
)

__all__ = [
    "brokers",
    "joining",
    "members_in_a_group",
    "offsets",
    "records",
    "small_limits",
    "static_members",
    "topics",
]
