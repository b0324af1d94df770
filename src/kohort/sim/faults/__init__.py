"""Faults, and clients that send requests that must be rejected."""
