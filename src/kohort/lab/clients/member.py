"""Program of one member that uses one of the Python clients and runs until SIGTERM.

python -m kohort.lab.clients.member CLIENT SETTINGS
"""

from __future__ import annotations

import importlib
import sys

from kohort.lab.member_settings import MemberSettings

CLIENT_MODULES = {
    "kohort": "kohort_member",
    "librdkafka": "librdkafka_member",
    "kafka-python": "kafka_python_member",
    "aiokafka": "aiokafka_member",
}
"""Module whose `run` is the member, by client."""


def main(client: str, settings: str) -> None:
    """Run the client's member until SIGTERM."""
    # Only one module is imported, because loading the other libraries would delay the start of the process.
    importlib.import_module(f"kohort.lab.clients.{CLIENT_MODULES[client]}").run(MemberSettings.from_json(settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
