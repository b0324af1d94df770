"""One member of a group in a process of its own, by one of the Python clients; it commits what it read at once.

    python -m tests.interop.mixed.clients.python_member \
        CLIENT BOOTSTRAP GROUP TOPIC STRATEGY NAME SESSION_MS CHOICES LOGIN

SIGTERM makes it leave. It offers STRATEGY alone, so the other members decide with it by Kafka's rules or not at all.
"""

from __future__ import annotations

import importlib
import json
import sys

from tests.interop.mixed.clients.said import Said
from tests.interop.mixed.kinds import Choices, Place
from tests.interop.mixed.login import Login

_MODULES = {
    "librdkafka": "confluent_member",
    "kafka-python": "kafka_python_member",
    "aiokafka": "aiokafka_member",
    "kohort": "kohort_member",
}


def main(client: str, *where: str) -> None:
    """Be a member until told to end."""
    bootstrap, group, topic, strategy, name, session_ms, choices, login = where
    user = json.loads(login)
    place = Place(
        *(bootstrap, group, topic, strategy, name, int(session_ms)),
        Choices(**json.loads(choices)),
        Login(**user) if user else None,
    )
    # Imported one by one: a process that shall start soon must not wait for the other libraries.
    importlib.import_module(f"tests.interop.mixed.clients.{_MODULES[client]}").run(place, Said())


if __name__ == "__main__":
    main(*sys.argv[1:])
