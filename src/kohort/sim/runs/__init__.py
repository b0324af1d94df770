"""Runs of many seeds on all cores, and the report."""
