"""The broker: asyncio around coordinator and log.

`Broker` runs on an event loop that is already there (a test's, an application's); `run` is a process of its own.
"""

from kohort.broker.config import read_settings
from kohort.broker.main import run
from kohort.broker.server import Broker, BrokerOptions

__all__ = ["Broker", "BrokerOptions", "read_settings", "run"]
