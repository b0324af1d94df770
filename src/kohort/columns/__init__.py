"""Compiled conversion between record batches and Arrow columns (`kohort[fast]`), for the client and Spark."""
