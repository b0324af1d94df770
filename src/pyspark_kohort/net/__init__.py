"""Blocking connections to a cluster, for the driver and the executors."""
