"""KIP-227: sessions that begin, continue, grow, shrink and end, and their changed and unchanged partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kohort.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.delete_topics import DeleteTopicsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.interop.conversation.members import UNKNOWN_ID
from tests.interop.conversation.scenes.records import batch, fetch, produce
from tests.interop.conversation.stage import Client, Stage, scene

Places = Mapping[tuple[str, int], int]
NOTHING: Places = {}


class Session:
    """One client's, as it believes to have it: it names what it is told to, and counts its epochs."""

    def __init__(self, s: Stage, v: int = 12) -> None:
        self._stage = s
        self._client: Client = s.client("session")
        self._v = v
        self.id = 0
        self.epoch = 0

    def _request(self, places: Places, forget: Collection[tuple[str, int]], changes: dict[str, Any]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        ids = self._stage.ids
        for (topic, partition), offset in places.items():
            fetch_topic = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=ids.get(topic, UNKNOWN_ID)))
            fetch_topic.partitions.append(
                FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=changes.get("room", 9_999))
            )
        forgotten = [ForgottenTopic(topic=t, topic_id=ids.get(t, UNKNOWN_ID), partitions=[p]) for t, p in forget]
        session = {"session_id": self.id, "session_epoch": self.epoch}
        others = {name: value for name, value in changes.items() if name != "room"}
        return FetchRequest(
            **{"max_wait_ms": 50, "min_bytes": 1, "topics": list(topics.values()), **session, **others},
            forgotten_topics_data=forgotten,
        )

    async def ask(
        self, name: str, places: Places = NOTHING, forget: Collection[tuple[str, int]] = (), **changes: Any
    ) -> None:
        """Fetch; a session that was begun or went on is at its next epoch."""
        self._follow(await self._client.ask(name, self._request(places, forget, changes), self._v))

    async def waits(self, name: str, places: Places = NOTHING, **changes: Any) -> None:
        """Send a fetch; `receives` returns its response."""
        await self._client.waits(name, self._request(places, (), {"max_wait_ms": 5_000, **changes}), self._v)

    async def receives(self, name: str) -> None:
        """The answer to what waits."""
        self._follow(await self._client.receives(name))

    def _follow(self, answer: Any) -> None:
        if answer.error_code == 0:
            self.id, self.epoch = answer.session_id, self.epoch + 1


@scene
async def fetch_sessions(s: Stage) -> None:
    """Asking for a session, using one that is not there."""
    orders = await s.topic("orders")
    await produce(s, "produce", orders, batch("x"))
    await fetch(s, "no session", {(orders, 0): 0}, session_epoch=-1)
    await fetch(s, "an unknown session", {(orders, 0): 0}, session_id=7, session_epoch=1)
    await fetch(s, "an unknown session closed", {(orders, 0): 0}, session_id=7, session_epoch=-1)
    await fetch(s, "an unknown session renewed", {(orders, 0): 0}, session_id=7, session_epoch=0)
    await fetch(s, "an epoch without a session", {(orders, 0): 0}, session_epoch=1)
    await fetch(s, "an epoch that is none", {(orders, 0): 0}, session_epoch=-2)
    await fetch(s, "a new session", {(orders, 0): 0}, session_epoch=0)
    await fetch(s, "a new session of nothing", {}, session_epoch=0)
    await fetch(s, "a new session of what is not there", {("nowhere", 0): 0}, session_epoch=0)


@scene
async def a_session_goes_on(s: Stage) -> None:
    """Only what changes is named, and only what changed is told."""
    orders = await s.topic("orders", partitions=3)
    await produce(s, "produce", orders, batch("a", "b"))
    for v in (7, 11, 12, 13, 17):
        session = Session(s, v)
        await session.ask(f"begins {v}", {(orders, 0): 0, (orders, 1): 0, (orders, 2): 0})
        await session.ask(f"again the same {v}")
        await session.ask(f"went on {v}", {(orders, 0): 2})
        await session.ask(f"idle {v}")
        await produce(s, f"produce to another {v}", orders, batch("c"), partition=1)
        await session.ask(f"is told of it {v}")
        await session.ask(f"is told again, as it does not move {v}")
        await session.ask(f"forgets one {v}", forget=[(orders, 1), (orders, 9)])
        await session.ask(f"idle without it {v}")
        await session.ask(f"takes it again {v}", {(orders, 1): 0})
        await session.ask(f"takes and forgets it in one {v}", {(orders, 1): 0}, forget=[(orders, 1)])


@scene
async def a_session_at_the_wrong_epoch(s: Stage) -> None:
    """An epoch that was used, one that is ahead, and what becomes of the session."""
    orders = await s.topic("orders")
    session = Session(s)
    await session.ask("begins", {(orders, 0): 0})
    await session.ask("goes on")
    session.epoch -= 1
    await session.ask("repeats its epoch")
    session.epoch += 2
    await session.ask("is ahead")
    session.epoch -= 1
    await session.ask("is right again")
    await fetch(s, "with topic ids", {(orders, 0): 0}, 13, session_id=session.id, session_epoch=session.epoch)
    await session.ask("without them, as before")
    old = session.id
    session.epoch = 0
    await session.ask("begins anew", {(orders, 0): 0})
    await fetch(s, "the one before", {}, session_id=old, session_epoch=2)
    await fetch(s, "ends it", {}, session_id=session.id, session_epoch=-1)
    await session.ask("is over")


@scene
async def a_session_of_nothing(s: Stage) -> None:
    """Everything is forgotten."""
    orders = await s.topic("orders")
    session = Session(s)
    await session.ask("begins", {(orders, 0): 0})
    await session.ask("forgets all", forget=[(orders, 0)], max_wait_ms=9_000)
    session.epoch = 2
    await session.ask("is over")


@scene
async def a_session_with_errors(s: Stage) -> None:
    """Partitions that are not there, come later, or go; offsets out of range."""
    orders = await s.topic("orders")
    for v in (12, 13):
        session = Session(s, v)
        await session.ask(f"begins {v}", {(orders, 0): 0, (orders, v): 0, ("nowhere", 0): 0})
        await session.ask(f"is told again {v}")
        await session.ask(f"is told of another {v}", {(orders, 0): 99})
        await session.ask(f"and mends it {v}", {(orders, 0): 0}, forget=[("nowhere", 0)])
        await s.admin.ask(
            f"more partitions {v}",
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=orders, count=v + 1)], timeout_ms=5_000),
            2,
        )
        await s.settled(orders)
        await session.ask(f"now it is there {v}")
        await session.ask(f"idle {v}")
    await s.admin.ask("delete it", DeleteTopicsRequest(topic_names=[orders], timeout_ms=5_000), 5)
    await s.settled(orders, gone=True)
    await session.ask("the topic is gone")
    await s.topic("orders", partitions=20)
    await session.ask("there is another of its name")


@scene
async def a_session_that_waits(s: Stage) -> None:
    """A long poll of a session: for records, in vain, and for enough of them."""
    orders = await s.topic("orders", partitions=2)
    session = Session(s)
    await session.ask("begins", {(orders, 0): 0, (orders, 1): 0})
    await session.waits("waits")
    await produce(s, "produce", orders, batch("a"), partition=1)
    await session.receives("the news")
    await session.ask("in vain", {(orders, 1): 1}, max_wait_ms=100)
    await session.waits("waits for more than comes", min_bytes=200, max_wait_ms=700)
    await produce(s, "produce a little", orders, batch("b"))
    await session.receives("what there is")
    await session.waits("waits for much", {(orders, 0): 1}, min_bytes=100)
    await produce(s, "produce here", orders, batch("c"))
    await produce(s, "produce there", orders, batch("d"), partition=1)
    await session.receives("both")


@scene
async def a_session_whose_log_begins_later(s: Stage) -> None:
    """Where a log begins is told when it moves, even if there is nothing to read."""
    orders = await s.topic("orders")
    await produce(s, "produce", orders, batch("a", "b"))
    session = Session(s)
    await session.ask("begins", {(orders, 0): 2})
    await session.ask("idle")
    wanted = [DeleteRecordsPartition(partition_index=0, offset=1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=orders, partitions=wanted)], timeout_ms=5_000)
    await s.admin.ask("delete one", request, 2)
    await session.ask("is told")
    await session.ask("idle again")


@scene
async def a_session_with_little_room(s: Stage) -> None:
    """A partition that returned records is last in the next response, so that none starves."""
    orders = await s.topic("orders", partitions=3)
    for partition in range(3):
        for n in range(2):
            await produce(s, f"produce {partition} {n}", orders, batch("x" * 300), partition=partition)
    session = Session(s)
    await session.ask("begins", {(orders, 0): 0, (orders, 1): 0, (orders, 2): 0}, max_bytes=1)
    await session.ask("the second", {(orders, 0): 1}, max_bytes=1)
    await session.ask("the third", {(orders, 1): 1}, max_bytes=1)
    await session.ask("the first again", {(orders, 2): 1}, max_bytes=1)
