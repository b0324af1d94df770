"""Prompt heartbeats, for both protocols: which heartbeats are held, for how long, and what ends a hold."""
