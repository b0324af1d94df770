"""`kohort fake`: a cluster that grows and shrinks, and the HTTP endpoint that controls it.

The endpoint has the paths and the JSON of `kcl fake --control`, and more under /kohort/.
"""

from kohort.testing.fake.cluster import FakeCluster, FakeOptions, Mechanism, User
from kohort.testing.fake.control_server import ControlServer
from kohort.testing.releases import read_release

__all__ = ["ControlServer", "FakeCluster", "FakeOptions", "Mechanism", "User", "read_release"]
