"""A broker behind a socket that takes a transcript's requests, each on a connection of its own."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Hashable, Iterator, Set

from kohort.coordinator import Effects
from kohort.model import Millis
from kohort.wire.api import APIS
from kohort.wire.codec import Message, decode, encode
from kohort.wire.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.header import read_response_header, request_header
from kohort.wire.list_groups import ListGroupsResponse
from kohort.wire.offset_fetch import OffsetFetchRequest

PARKED_AFTER = 0.15
"""Seconds without an answer after which a request counts as parked."""
QUIET_AFTER = 0.05
"""Seconds for which the answers to others are awaited."""


class WireCoordinator:
    """Its groups are kept apart from those of other transcripts by a prefix, and its time is real."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._prefix = f"{prefix}."
        self._open: dict[Hashable, tuple[socket.socket, Message, int, bytes]] = {}

    @property
    def now(self) -> Millis:
        return int(time.monotonic() * 1_000)

    @property
    def waiting(self) -> Set[Hashable]:
        return self._open.keys()

    def handle(self, request: Message, token: Hashable, version: int, client_id: str = "") -> Effects:
        """Send a request; returns what was answered to anybody until nothing more came."""
        self._mark(request)
        body = request_header(request.KEY, version, 1, client_id) + encode(request, version)
        connection = socket.create_connection(self._address)
        connection.sendall(struct.pack(">i", len(body)) + body)
        self._open[token] = connection, request, version, b""
        out = self._collect(PARKED_AFTER, until=token)
        out.replies.update(self._collect(QUIET_AFTER).replies)
        return out

    def wait(self, duration: Millis) -> Iterator[Effects]:
        """Let real time pass."""
        yield self._collect(duration / 1_000 + 2 * QUIET_AFTER)

    def disconnect(self, token: Hashable) -> Effects:
        """Break a connection."""
        self._open.pop(token)[0].close()
        return Effects()

    def close(self) -> None:
        """Break all connections."""
        for token in list(self._open):
            self.disconnect(token)

    def _collect(self, timeout: float, until: Hashable = None) -> Effects:
        out = Effects()
        end = time.monotonic() + timeout
        while (until is None or until not in out.replies) and (left := end - time.monotonic()) > 0:
            tokens = {one[0]: token for token, one in self._open.items()}
            readable, _, _ = select.select(list(tokens), [], [], left)
            for connection in readable:
                self._read(tokens[connection], out)
        return out

    def _read(self, token: Hashable, out: Effects) -> None:
        connection, request, version, data = self._open[token]
        chunk = connection.recv(65_536)
        if not chunk:
            raise ConnectionError(f"the broker closed the connection of {request}")
        data += chunk
        if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
            self._open[token] = connection, request, version, data
            return
        self.disconnect(token)
        _, position = read_response_header(data[4:], request.KEY, version)
        response = decode(APIS[request.KEY].response, version, data[4 + position :])
        self._unmark(response)
        out.replies[token] = response

    def _mark(self, request: Message) -> None:
        if isinstance(request, DescribeGroupsRequest):
            request.groups = [self._prefix + name for name in request.groups]
        elif isinstance(request, DeleteGroupsRequest):
            request.groups_names = [self._prefix + name for name in request.groups_names]
        elif isinstance(request, OffsetFetchRequest) and request.groups:
            for group in request.groups:
                group.group_id = self._prefix + group.group_id if group.group_id else ""
        elif getattr(request, "group_id", ""):
            request.group_id = self._prefix + request.group_id  # type: ignore[attr-defined]

    def _unmark(self, response: Message) -> None:
        match response:
            case DescribeGroupsResponse(groups=groups):
                for group in groups:
                    group.group_id = group.group_id.removeprefix(self._prefix)
            case DeleteGroupsResponse(results=results):
                for result in results:
                    result.group_id = result.group_id.removeprefix(self._prefix)
            case ListGroupsResponse():
                response.groups = [group for group in response.groups if group.group_id.startswith(self._prefix)]
                for one in response.groups:
                    one.group_id = one.group_id.removeprefix(self._prefix)
