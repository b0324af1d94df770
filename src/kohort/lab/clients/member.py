"""One member by one of the Python clients, until SIGTERM:

python -m kohort.lab.clients.member CLIENT ORDER
"""

from __future__ import annotations

import importlib
import sys

from kohort.lab.order import Order

MODULES = {
    "kohort": "kohort_member",
    "librdkafka": "librdkafka_member",
    "kafka-python": "kafka_python_member",
    "aiokafka": "aiokafka_member",
}
"""By client, the module whose `run` is its member."""


def main(client: str, order: str) -> None:
    """Be a member until told to end."""
    # Imported one by one: a process that shall start soon must not wait for the other libraries.
    importlib.import_module(f"kohort.lab.clients.{MODULES[client]}").run(Order.from_json(order))


if __name__ == "__main__":
    main(*sys.argv[1:])
