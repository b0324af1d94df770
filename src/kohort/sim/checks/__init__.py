"""Checks of the invariants while events happen."""
