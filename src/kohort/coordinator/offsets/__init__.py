"""Committed offsets: commits, fetches and the permission for them, expiry and deletion."""

from kohort.coordinator.offsets.commit_fetch import commit, fetch
from kohort.coordinator.offsets.deletion import delete_groups, delete_offsets, forget_topics
from kohort.coordinator.offsets.expiry import expire
from kohort.coordinator.offsets.transactional import commit_in_transaction

__all__ = ["commit", "commit_in_transaction", "delete_groups", "delete_offsets", "expire", "fetch", "forget_topics"]
