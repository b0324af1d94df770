"""Processes of a world (brokers, members, and clients of records) and the state that they share."""
