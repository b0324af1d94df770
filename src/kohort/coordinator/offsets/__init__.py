"""Committed offsets: commits, fetches and the permission for them, expiry and deletion."""
