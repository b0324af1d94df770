"""Blocking interface to the asyncio client.

Each object runs an event loop in a daemon thread and calls into it. Heartbeats therefore continue
however long the application takes to process records. Callbacks run in the thread that polls.
"""

from kohort.client.blocking.admin import Admin
from kohort.client.blocking.consumer import Callback, Consumer
from kohort.client.blocking.producer import BlockingDelivery, Producer

__all__ = ["Admin", "BlockingDelivery", "Callback", "Consumer", "Producer"]
