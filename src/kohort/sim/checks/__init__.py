"""Invariants, and the checks that verify them."""
