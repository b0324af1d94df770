"""Demonstration on real flights: broker, producer, a rebalancing group, Spark, a crash, and verified results."""
