"""Record the frames of the conversation (tests/interop/conversation) into `frames.bin`: `python -m tests.fuzz.record`.

A relay between the scenes and our broker sees both directions. Of each API, version and direction it keeps the
smallest frame, the largest that is not huge, and one between.
"""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict, deque

from kohort.wire.api import APIS, read_request_header
from kohort.wire.codec import DecodeError, decoder
from kohort.wire.messages.produce import ProduceRequest
from tests.fuzz.frames import Frame, write_frames
from tests.fuzz.messages import RECORDED
from tests.interop.conversation import scenes
from tests.interop.conversation.play import play
from tests.interop.conversation.settings import ADMINS, PARTS
from tests.interop.conversation.stage import SCENES
from tests.interop.kohort import running_kohort

MOST_BYTES = 3_000

assert scenes.__all__, "imported for what it registers"


class Relay:
    """Proxy for connections to a broker that keeps all bytes."""

    def __init__(self, broker: tuple[str, int]) -> None:
        self._broker = broker
        self.seen: dict[tuple[int, int, bool], set[bytes]] = defaultdict(set)
        """By API, version, and whether it is a request."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until either side closes it."""
        there, back = await asyncio.open_connection(*self._broker)
        asked: deque[tuple[int, int]] = deque()
        try:
            await asyncio.gather(self._requests(reader, back, asked), self._responses(there, writer, asked))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            back.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[tuple[int, int]]
    ) -> None:
        while True:
            size = await reader.readexactly(4)
            data = await reader.readexactly(struct.unpack(">i", size)[0])
            place = _answered(data)
            if place is not None:
                asked.append(place)
                self.seen[*place, True].add(data)
            writer.write(size + data)

    async def _responses(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: deque[tuple[int, int]]
    ) -> None:
        while True:
            size = await reader.readexactly(4)
            data = await reader.readexactly(struct.unpack(">i", size)[0])
            if asked:
                place = asked.popleft()
                self.seen[*place, False].add(struct.pack(">hh", *place) + data)
            writer.write(size + data)

    def kept(self) -> list[Frame]:
        """Three of each kind at most."""
        frames: list[Frame] = []
        for (_, _, is_request), found in sorted(self.seen.items()):
            by_size = sorted((data for data in found if len(data) <= MOST_BYTES), key=lambda each: (len(each), each))
            some = {by_size[0], by_size[len(by_size) // 2], by_size[-1]} if by_size else set()
            frames += [(is_request, data) for data in sorted(some)]
        return frames


def _answered(data: bytes) -> tuple[int, int] | None:
    """API and version of a request that gets an answer; None of any other."""
    try:
        header = read_request_header(data)
        request, _ = decoder(APIS[header.api_key].request, header.api_version)(data, header.body)
    except (DecodeError, KeyError):
        return None
    if isinstance(request, ProduceRequest) and request.acks == 0:
        return None
    return header.api_key, header.api_version


async def record() -> list[Frame]:
    """Play every part of the conversation."""
    frames: dict[Frame, None] = {}
    for part, settings in PARTS.items():
        with running_kohort(**{name.replace(".", "_"): value for name, value in settings.items()}) as broker:
            relay = Relay(broker.address)
            server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            await play(f"{host}:{port}", SCENES[part], ADMINS.get(part, ""))
            server.close()
            frames |= dict.fromkeys(relay.kept())
    return list(frames)


if __name__ == "__main__":
    write_frames(RECORDED, asyncio.run(record()))
