"""Environment of the simulated processes: time, network, disks, and the faults of these."""
