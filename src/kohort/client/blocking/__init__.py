"""A blocking face on the asyncio client: each object has an event loop in a daemon thread, and calls into it.

So heartbeats go on however long the application takes with its records. Callbacks run in the thread that polls.
"""

from kohort.client.blocking.admin import Admin
from kohort.client.blocking.consumer import Callback, Consumer
from kohort.client.blocking.producer import BlockingDelivery, Producer

__all__ = ["Admin", "BlockingDelivery", "Callback", "Consumer", "Producer"]
