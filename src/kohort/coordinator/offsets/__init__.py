"""Committed offsets: commits, fetches and the permission for them, expiry and deletion."""

from kohort.coordinator.offsets.commit_fetch import commit, fetch
from kohort.coordinator.offsets.deletion import delete_groups, delete_offsets, forget_topics
from kohort.coordinator.offsets.expiry import expire

__all__ = ["commit", "delete_groups", "delete_offsets", "expire", "fetch", "forget_topics"]
