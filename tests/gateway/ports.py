"""Ports for a gateway whose ports are consecutive."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path


def consecutive_free_ports(count: int) -> int:
    """Return the first of consecutive ports of 127.0.0.1 that were free a moment ago.

    They are below those from which the kernel takes the ports of outgoing connections, which might take one of them.
    """
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, first_outgoing - count)
        with suppress(OSError), ExitStack() as bound:
            for number in range(port, port + count):
                bound.enter_context(socket.create_server(("127.0.0.1", number)))
            return port
