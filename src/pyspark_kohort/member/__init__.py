"""Streaming source that reads as a member of a consumer group."""

from pyspark_kohort.member.group_stream import MemberReader

__all__ = ["MemberReader"]
