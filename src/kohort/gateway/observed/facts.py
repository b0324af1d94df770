"""Types of this room. Pure."""

from kohort.model import UUID

Partition = tuple[UUID, int]
"""Partition by its topic's ID."""
