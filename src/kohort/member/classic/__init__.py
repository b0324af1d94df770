"""The member of a classic group: JoinGroup, SyncGroup, and a leader that computes the assignment."""

from kohort.member.classic.member import ClassicMember

__all__ = ["ClassicMember"]
