"""Simulated world: time, network, disks, brokers, clients."""
