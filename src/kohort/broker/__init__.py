"""The broker: the asyncio shell around the coordinator and the log.

`Broker` runs on an existing event loop, such as a test's or an application's. `run` runs it as a process of its own;
`run_cluster` starts several of these processes. `stored_credentials` opens the users of a stopped one.
"""

from kohort.broker.clock import Clock
from kohort.broker.config import read_settings
from kohort.broker.main import Beside, OwnMetrics, announce_ready, log_to_stderr, run, run_cluster, stop_on_signals
from kohort.broker.offline import stored_credentials
from kohort.broker.server import Broker, BrokerOptions

__all__ = [
    "Beside",
    "Broker",
    "BrokerOptions",
    "Clock",
    "OwnMetrics",
    "announce_ready",
    "log_to_stderr",
    "read_settings",
    "run",
    "run_cluster",
    "stop_on_signals",
    "stored_credentials",
]
