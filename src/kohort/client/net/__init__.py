"""Connections to a cluster, and its metadata as the client knows it."""
