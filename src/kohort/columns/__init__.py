"""Compiled conversion between record batches and Arrow columns (extra `fast`), for the client and Spark."""
