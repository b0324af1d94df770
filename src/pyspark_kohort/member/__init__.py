"""Streaming source that reads as a member of a consumer group."""
