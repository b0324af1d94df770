"""Experiments on real groups that measure what a rebalance costs, with any protocol, client and broker.

Start reading at `scenarios.py`, which defines what is done to a group, and `measure.py`, which
computes the measures from the members' events.
"""
