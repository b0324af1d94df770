"""Exhaustive model: every order of events of a small world."""
