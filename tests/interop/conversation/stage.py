"""Where a scene plays: clients of one broker, and the transcript of what they asked and heard.

Each call with a sentence in it is one exchange: it is sent to either broker, and the two answers are compared.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kohort.model import UUID
from kohort.wire.api import APIS, read_response_header, request_header
from kohort.wire.codec import Message, decode, encode
from kohort.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse
from kohort.wire.messages.list_config_resources import ListConfigResourcesResponse
from kohort.wire.messages.list_groups import ListGroupsResponse
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.interop.conversation.plain import Names, Plain

PATIENCE = 12.0
"""Seconds that any answer may take; nothing waits so long when all is well."""
_GROUPS_AND_METRICS = {16, 32}
"""Kinds of resources that have configs, and that scenes name."""
PARKED_AFTER = 0.15
"""Seconds without an answer after which a request counts as one that waits."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what was answered."""

    name: str
    asked: str
    answer: dict[str, Plain]


@dataclass
class Stage:
    """One scene at one broker: the groups and topics whose names begin with the scene's are its own."""

    scene: str
    host: str
    port: int
    user: str = ""
    """Who the admin client is; empty where nobody authenticates."""
    transcript: list[Exchange] = field(default_factory=list)
    ids: dict[str, UUID] = field(default_factory=dict)
    """Topic ids by name, of the topics that the scene made."""
    connections: list[Connection] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    """How often each name of an exchange was used."""

    def __post_init__(self) -> None:
        self.names = Names(self.port)
        self.group = self.scene
        self.admin = Client(self, "admin", self.user)

    def client(self, name: str, *, user: str = "") -> Client:
        """Somebody who asks, as that user."""
        return Client(self, name, user)

    async def topic(self, suffix: str, partitions: int = 1, **configs: str) -> str:
        """Make a topic, wait until it can be used, and return its name. No exchange."""
        name = f"{self.scene}-{suffix}"
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        wanted.configs = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ]
        await self.admin.quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
        await self.settled(name)
        return name

    async def settled(self, name: str, *, gone: bool = False) -> None:
        """Wait until the broker knows the topic, or no longer knows it: Kafka's brokers do so a little later."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        for _ in range(200):
            answer = await self.admin.quietly(request, 12)
            assert isinstance(answer, MetadataResponse)
            (topic,) = answer.topics
            led = topic.partitions and all(p.leader_id >= 0 and not p.error_code for p in topic.partitions)
            if topic.error_code if gone else (not topic.error_code and led):
                self.ids[name] = topic.topic_id
                self.names.plain(topic)
                if gone or await self._is_led(name, len(topic.partitions)):
                    return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{name} does not settle")

    async def _is_led(self, name: str, partitions: int) -> bool:
        """Whether every partition can be read: Kafka's metadata names a leader a little before it leads."""
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=wanted)])
        answer = await self.admin.quietly(request, 7)
        return all(not partition.error_code for topic in answer.topics for partition in topic.partitions)

    async def configs_are(self, request: DescribeConfigsRequest, expected: Mapping[str, str]) -> None:
        """Wait until these values are told, for some seconds at most: Kafka's broker hears of a change a little later.

        No exchange: what the broker says then is compared with what the other says.
        """
        for _ in range(300):
            answer = await self.admin.quietly(request, 4)
            told = {config.name: config.value for result in answer.results for config in result.configs}
            if expected.items() <= told.items():
                return
            await asyncio.sleep(0.02)

    def write(self, name: str, asked: str, answer: Plain) -> None:
        """Add to the transcript; who says the same again is numbered."""
        again = self.said[name] = self.said.get(name, 0) + 1
        name = name if again == 1 else f"{name} ({again})"
        self.transcript.append(Exchange(name, asked, answer if isinstance(answer, dict) else {"": answer}))

    def plain(self, answer: Message) -> Plain:
        """The answer without what belongs to other scenes, which play at the same time."""
        if isinstance(answer, ListGroupsResponse):
            answer.groups = [group for group in answer.groups if group.group_id.startswith(self.scene)]
        if isinstance(answer, MetadataResponse) and len(answer.topics) > 5:
            answer.topics = [topic for topic in answer.topics if (topic.name or "").startswith(self.scene)]
        if isinstance(answer, ListConfigResourcesResponse):
            resources = answer.config_resources
            answer.config_resources = [
                resource
                for resource in resources
                if resource.resource_type not in _GROUPS_AND_METRICS or resource.resource_name.startswith(self.scene)
            ]
        if isinstance(answer, DescribeUserScramCredentialsResponse):
            answer.results = [
                result for result in answer.results if result.error_code or result.user.startswith(self.scene)
            ]
        if isinstance(answer, FetchResponse):
            answer.responses = _by_topic(answer.responses, {topic_id: name for name, topic_id in self.ids.items()})
        return self.names.plain(answer)

    def close(self) -> None:
        """Close every connection."""
        for connection in self.connections:
            connection.close()


def _by_topic(responses: list[FetchableTopicResponse], names: Mapping[UUID, str]) -> list[FetchableTopicResponse]:
    """One entry for each topic: Kafka begins another where the partitions of two topics take turns."""
    topics: dict[tuple[str, UUID], FetchableTopicResponse] = {}
    for response in responses:
        topics.setdefault(
            (response.topic, response.topic_id),
            FetchableTopicResponse(topic=response.topic, topic_id=response.topic_id),
        )
        topics[response.topic, response.topic_id].partitions += response.partitions
    return [topics[name, of] for name, of in sorted(topics, key=lambda one: (one[0] or names.get(one[1], ""), one[1]))]


class Connection:
    """One connection: answers come in the order of the requests."""

    def __init__(self, stage: Stage, client_id: str, user: str) -> None:
        self._stage = stage
        self._client_id = client_id
        self._user = user
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._reading: asyncio.Task[bytes | None] | None = None
        self._last_correlation_id = 0
        self.unanswered: set[int] = set()
        """Correlation ids of requests without an answer."""

    async def send(self, key: int, version: int, body: bytes) -> None:
        """Send one request; its correlation id tells it apart on the connection."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._stage.host, self._stage.port)
            self._stage.connections.append(self)
            if self._user:
                await self._authenticate()
        self._write(key, version, body)

    async def _authenticate(self) -> None:
        """Authenticate by PLAIN; the password is the name."""
        for request, version, kind in (
            (SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse),
            (SaslAuthenticateRequest(auth_bytes=f"\0{self._user}\0{self._user}".encode()), 2, SaslAuthenticateResponse),
        ):
            self._write(request.KEY, version, encode(request, version))
            frame = await self.receive()
            assert frame is not None, f"{self._user} cannot authenticate"
            correlation_id, position = read_response_header(frame, request.KEY, version)
            self.unanswered.remove(correlation_id)
            answer: Any = decode(kind, version, frame[position:])
            assert not answer.error_code, answer

    def _write(self, key: int, version: int, body: bytes) -> None:
        assert self._streams is not None
        self._last_correlation_id += 1
        self.unanswered.add(self._last_correlation_id)
        frame = request_header(key, version, self._last_correlation_id, self._client_id) + body
        self._streams[1].write(struct.pack(">i", len(frame)) + frame)

    async def is_quiet(self, seconds: float) -> bool:
        """Return whether nothing arrives for that time; what arrives can still be received."""
        done, _ = await asyncio.wait({self._coming()}, timeout=seconds)
        return not done

    async def receive(self) -> bytes | None:
        """The next frame; None when the connection is closed instead."""
        coming = self._coming()
        done, _ = await asyncio.wait({coming}, timeout=PATIENCE)
        if not done:
            raise TimeoutError
        self._reading = None
        return coming.result()

    def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def _coming(self) -> asyncio.Task[bytes | None]:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._frame())
        return self._reading

    async def _frame(self) -> bytes | None:
        assert self._streams is not None
        reader, writer = self._streams
        try:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            return await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            self._streams = None
            return None


class Client:
    """Somebody who asks. Where a request of its waits, the next one takes another connection."""

    def __init__(self, stage: Stage, name: str, user: str = "") -> None:
        self.stage = stage
        self.name = name
        self.user = user
        self._connections = [Connection(stage, name, user)]
        self._waiting: list[tuple[Connection, type[Message], int]] = []

    async def ask(self, name: str, request: Message, v: int) -> Any:
        """One exchange; returns the answer, or None if the connection was closed."""
        connection = await self._send(request, v)
        return await self._answer(name, f"v{v} {request!r}", connection, APIS[request.KEY].response, v)

    async def quietly(self, request: Message, v: int) -> Any:
        """Ask, outside the transcript."""
        connection = await self._send(request, v)
        return await self._read(connection, APIS[request.KEY].response, v)

    async def waits(self, name: str, request: Message, v: int) -> bool:
        """Record one exchange that waits, and whether it does; `receives` gets its answer."""
        connection = await self._send(request, v)
        return await self._is_parked(name, request, v, connection)

    async def follows(self, name: str, request: Message, v: int) -> None:
        """One exchange on the connection of the newest request that waits, which it has to follow."""
        connection = self._waiting[-1][0]
        await connection.send(request.KEY, v, encode(request, v))
        await self._is_parked(name, request, v, connection)

    async def _is_parked(self, name: str, request: Message, v: int, connection: Connection) -> bool:
        self._waiting.append((connection, APIS[request.KEY].response, v))
        quiet = await connection.is_quiet(PARKED_AFTER)
        self.stage.write(name, f"v{v} {request!r}", "waits" if quiet else "answers at once")
        return quiet

    async def receives(self, name: str) -> Any:
        """The answer to the oldest request that waits: an exchange of its own."""
        connection, kind, version = self._waiting.pop(0)
        return await self._answer(name, "(the answer that it waits for)", connection, kind, version)

    async def abandons(self, name: str) -> None:
        """Record the outcome of the oldest waiting request, without further events, as its own exchange."""
        connection, kind, version = self._waiting.pop(0)
        self._connections.remove(connection)
        if await connection.is_quiet(PARKED_AFTER):
            self.stage.write(name, "(is there an answer?)", "waits")
        else:
            await self._answer(name, "(is there an answer?)", connection, kind, version)

    async def sends(self, name: str, key: int, v: int, body: bytes, *, heard_in: int | None = None) -> Any:
        """One exchange of a body made by hand; `heard_in` is the version of the answer if it is not the request's."""
        connection = self._free()
        await connection.send(key, v, body)
        kind = APIS[key].response if key in APIS else APIS[18].response
        return await self._answer(
            name, f"key {key} v{v} {body!r}", connection, kind, v if heard_in is None else heard_in
        )

    def hangs_up(self) -> None:
        """Close all its connections; the next request opens a new one."""
        for connection in self._connections:
            connection.close()
        self._connections = [Connection(self.stage, self.name, self.user)]
        self._waiting = []

    def _free(self) -> Connection:
        busy = [connection for connection, _, _ in self._waiting]
        free = next((connection for connection in self._connections if connection not in busy), None)
        if free is None:
            free = Connection(self.stage, self.name, self.user)
            self._connections.append(free)
        return free

    async def _send(self, request: Message, v: int) -> Connection:
        connection = self._free()
        await connection.send(request.KEY, v, encode(request, v))
        return connection

    async def _answer(self, name: str, asked: str, connection: Connection, kind: type[Message], v: int) -> Any:
        try:
            answer = await self._read(connection, kind, v)
        except TimeoutError:
            self.stage.write(name, asked, "never answers")
            self._connections.remove(connection)
            return None
        self.stage.write(name, asked, "closes the connection" if answer is None else self.stage.plain(answer))
        return answer

    async def _read(self, connection: Connection, kind: type[Message], v: int) -> Message | None:
        frame = await connection.receive()
        if frame is None:
            return None
        correlation_id, position = read_response_header(frame, kind.KEY, v)
        connection.unanswered.remove(correlation_id)
        return decode(kind, v, frame[position:])


Scene = Callable[[Stage], Awaitable[None]]

SCENES: dict[str, dict[str, Scene]] = {}
"""By the part of the play, which is one configuration of the brokers, and by name."""


def scene(play: Scene | None = None, *, part: str = "common") -> Any:
    """Take a scene into the play."""

    def take(scene: Scene) -> Scene:
        scenes = SCENES.setdefault(part, {})
        name = scene.__name__.replace("_", "-")
        assert name not in scenes, name
        scenes[name] = scene
        return scene

    return take if play is None else take(play)
