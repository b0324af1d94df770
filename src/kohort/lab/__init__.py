"""Experiments on real groups: what a rebalance costs, under any protocol, by any client, on any broker.

Start reading at `scenarios.py` (what is done to a group) and `measure.py` (what is made of what its members said).
"""
