"""Runs of many seeds on all cores, their choice and report, and the reduction of a failing plan."""
