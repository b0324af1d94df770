"""Client for plain threads: the same code as `kohort.client`, on an event loop in a separate thread."""

from kohort.client.blocking import Admin, BlockingDelivery, Consumer, Producer

__all__ = ["Admin", "BlockingDelivery", "Consumer", "Producer"]
