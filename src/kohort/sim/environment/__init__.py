"""Environment of the simulated processes: time, network, disks, and the faults of these.

An `Agenda` is the time of a world, and each `Process` has a `VirtualLoop` over it. `Network` connects
processes by `Transport`s. A `Disk` is the log that a world's brokers share, of one of four kinds; it
opens a `SimulatedStore` for a broker. `isolated` and `cpu_limit` surround the run of a world.
"""

from kohort.sim.environment.cluster_files import ClusterDisk
from kohort.sim.environment.database import Database, DatabaseStore
from kohort.sim.environment.disk import Disk, PartitionId, SimulatedStore
from kohort.sim.environment.files import FilesDisk
from kohort.sim.environment.hang_limit import cpu_limit
from kohort.sim.environment.isolation import isolated, rare_collections
from kohort.sim.environment.loop import Agenda, VirtualLoop
from kohort.sim.environment.network import Blocked, Network
from kohort.sim.environment.process import Process
from kohort.sim.environment.transport import Transport

__all__ = [
    "Agenda",
    "Blocked",
    "ClusterDisk",
    "Database",
    "DatabaseStore",
    "Disk",
    "FilesDisk",
    "Network",
    "PartitionId",
    "Process",
    "SimulatedStore",
    "Transport",
    "VirtualLoop",
    "cpu_limit",
    "isolated",
    "rare_collections",
]
