"""Batch source, and streaming source for queries outside of a group."""
