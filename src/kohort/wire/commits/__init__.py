"""Commits that a client repeats with other offsets: what they have in common is decoded and encoded once."""

from kohort.wire.commits.learning import shape_of
from kohort.wire.commits.repeated_commit import CommitShape, CommittedTopic, RepeatedCommit

__all__ = ["CommitShape", "CommittedTopic", "RepeatedCommit", "shape_of"]
