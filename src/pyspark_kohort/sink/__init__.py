"""Sink that writes to Kafka."""
