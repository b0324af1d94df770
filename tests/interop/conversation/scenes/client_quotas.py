"""Quotas of users, client IDs and addresses: set, found, removed, and rejected."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence

from kohort.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kohort.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.interop.conversation.scenes.records import batch, produce_request
from tests.interop.conversation.stage import Stage, scene

alone = functools.partial(scene, part="quotas")
Parts = Sequence[tuple[str, str | None]]
PRODUCER, CONSUMER, REQUESTS, MUTATIONS, CONNECTIONS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
EXACT, DEFAULT, ANY = 0, 1, 2


def entry(parts: Parts, quotas: Mapping[str, float | None] | Sequence[tuple[str, float | None]]) -> EntryData:
    listed = quotas.items() if isinstance(quotas, Mapping) else quotas
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in listed],
    )


def altered(*entries: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def described(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    filters = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=filters, strict=strict)


async def alter(s: Stage, name: str, *entries: EntryData, v: int = 1, validate_only: bool = False) -> None:
    await s.admin.ask(name, altered(*entries, validate_only=validate_only), v)


async def describe(
    s: Stage, name: str, *components: tuple[str, int, str | None], v: int = 1, strict: bool = False
) -> None:
    await s.admin.ask(name, described(*components, strict=strict), v)


async def until_known(s: Stage, client_id: str, quotas: Mapping[str, float]) -> None:
    """Wait until the broker knows these quotas of a client ID: Kafka's brokers do so a little later."""
    for _ in range(500):
        answer = await s.admin.quietly(described(("client-id", EXACT, client_id), strict=True), 1)
        if [{value.key: value.value for value in one.values} for one in answer.entries] == ([quotas] if quotas else []):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the quotas of {client_id} do not become {quotas}")


@alone
async def client_quotas(s: Stage) -> None:
    """Quotas of clients that are in no scene. One scene, because some of its filters find all quotas."""
    await _quotas_come_and_go(s)
    await _refused_quotas(s)
    await _refused_filters(s)
    await _throttled_clients(s)


async def _quotas_come_and_go(s: Stage) -> None:
    alice, app, other = (f"{s.scene}-{name}" for name in ("alice", "app", "other"))
    pair = [("user", alice), ("client-id", app)]
    await alter(s, "a user", entry([("user", alice)], {PRODUCER: 1e9, REQUESTS: 1000.5}))
    await alter(s, "a pair", entry(pair, {CONSUMER: 2e9}))
    await alter(s, "a user with any client id", entry([("client-id", None), ("user", alice)], {MUTATIONS: 0.25}))
    await alter(s, "an address", entry([("ip", "192.0.2.1")], {CONNECTIONS: 7}))
    await alter(s, "an IPv6 address", entry([("ip", "2001:db8::1")], {CONNECTIONS: 2147483647}), v=0)
    await alter(s, "any address", entry([("ip", None)], {CONNECTIONS: 9e8}))
    await alter(s, "a client id", entry([("client-id", app)], {PRODUCER: 3e9, CONSUMER: 2.0**63}))
    await until_known(s, app, {PRODUCER: 3e9, CONSUMER: 2.0**63})
    for name, components in (
        ("all", ()),
        ("alice", [("user", EXACT, alice)]),
        ("alice with app", [("user", EXACT, alice), ("client-id", EXACT, app)]),
        ("alice with any", [("user", EXACT, alice), ("client-id", ANY, None)]),
        ("alice with the default", [("user", EXACT, alice), ("client-id", DEFAULT, None)]),
        ("the default user", [("user", DEFAULT, None)]),
        ("all users", [("user", ANY, None)]),
        ("all client ids", [("client-id", ANY, None)]),
        ("another", [("client-id", EXACT, other)]),
        ("one without a name", [("client-id", EXACT, "")]),
        ("all addresses", [("ip", ANY, None)]),
        ("the default address", [("ip", DEFAULT, None)]),
        ("one address", [("ip", EXACT, "192.0.2.1")]),
        ("another address", [("ip", EXACT, "192.0.2.2")]),
    ):
        await describe(s, name, *components)
        await describe(s, f"{name}, strictly", *components, strict=True, v=0)
    await alter(s, "only a check", entry([("client-id", app)], {PRODUCER: None}), validate_only=True)
    await alter(s, "another value", entry([("client-id", app)], {PRODUCER: 4e9, REQUESTS: 50}))
    await until_known(s, app, {PRODUCER: 4e9, CONSUMER: 2.0**63, REQUESTS: 50})
    await alter(s, "the same value", entry([("client-id", app)], {PRODUCER: 4e9}))
    await alter(s, "fewer", entry([("client-id", app)], {CONSUMER: None, MUTATIONS: None}))
    await until_known(s, app, {PRODUCER: 4e9, REQUESTS: 50})
    await describe(s, "what is left", ("client-id", EXACT, app))
    await alter(s, "none", entry([("client-id", app)], {PRODUCER: None, REQUESTS: None, "unknown": None}))
    await until_known(s, app, {})
    await alter(s, "none of nobody", entry([("client-id", other)], {PRODUCER: None}))
    await alter(s, "nothing of nobody", entry([("client-id", other)], {}))
    await describe(s, "the client id is gone", ("client-id", EXACT, app), strict=True)
    for parts, quotas in (
        ([("user", alice)], (PRODUCER, REQUESTS)),
        (pair, (CONSUMER,)),
        ([("user", alice), ("client-id", None)], (MUTATIONS,)),
        ([("ip", "192.0.2.1")], (CONNECTIONS,)),
        ([("ip", "2001:db8::1")], (CONNECTIONS,)),
        ([("ip", None)], (CONNECTIONS,)),
    ):
        await alter(s, f"no longer {parts}", entry(parts, dict.fromkeys(quotas)))


async def _refused_quotas(s: Stage) -> None:
    alice, app = f"{s.scene}-alice", f"{s.scene}-app"
    user, client = [("user", alice)], [("client-id", app)]
    for value in (0, -1, 0.5, 1.1, 0.9999999, 1.0000001, 1.00001, 2.0**63, 2.0**64, float("inf")):
        await alter(s, f"{value} bytes", entry(user, {CONSUMER: value}))
    for value in (0, -1, 1e-9, float("inf")):
        await alter(s, f"{value} percent", entry(user, {REQUESTS: value}))
    await alter(s, "a percentage that is no number", entry(user, {REQUESTS: float("nan")}))
    for value in (0, 0.5, 2147483647, 2147483648):
        await alter(s, f"{value} connections", entry([("ip", "192.0.2.3")], {CONNECTIONS: value}))
    for name, parts, quotas in (
        ("nobody", [], {PRODUCER: 1}),
        ("an unknown type", [("group", "g")], {PRODUCER: 1}),
        ("no type", [("", "g")], {PRODUCER: 1}),
        ("no name", [("user", "")], {PRODUCER: 1}),
        ("no name of a client id", [("user", alice), ("client-id", "")], {PRODUCER: 1}),
        ("an address and a user", [("user", alice), ("ip", "192.0.2.1")], {PRODUCER: 1}),
        ("an address and a client id", [("client-id", app), ("ip", "192.0.2.1")], {CONNECTIONS: 1}),
        ("all three", [*user, *client, ("ip", None)], {CONNECTIONS: 1}),
        ("an address that is none", [("ip", "1.2.3.4.5")], {CONNECTIONS: 1}),
        ("bytes of an address", [("ip", "192.0.2.1")], {PRODUCER: 1}),
        ("connections of a user", user, {CONNECTIONS: 1}),
        ("an unknown quota", user, {"bytes": 1}),
        ("a quota without a name", user, {"": 1}),
        ("a credential as a quota", user, {"SCRAM-SHA-256": 1}),
        ("a good and a bad one", client, {PRODUCER: 1e9, CONSUMER: -1}),
        ("an unknown one is removed from a bad type", [("group", "g")], {"bytes": None}),
    ):
        await alter(s, name, entry(parts, quotas))
    for rate in (7.0, None):
        await alter(s, f"{rate} connections of a host name", entry([("ip", "localhost")], {CONNECTIONS: rate}))
    await alter(s, "two users at once", entry([("user", "nobody"), ("user", alice)], {PRODUCER: 1e9}))
    await alter(s, "the same quota twice", entry(client, [(PRODUCER, 1e9), (PRODUCER, 2e9)]))
    await alter(s, "no entity")
    await alter(s, "a bad one, checked", entry(client, {CONSUMER: -1}), validate_only=True)
    await describe(s, "nothing was set", ("client-id", EXACT, app))
    await alter(s, "good and bad", entry(client, {PRODUCER: 1e9}), entry(user, {CONSUMER: -1}))
    await until_known(s, app, {PRODUCER: 1e9})
    await alter(s, "one twice", entry(client, {PRODUCER: None}), entry(client, {PRODUCER: 7e9}))
    await until_known(s, app, {})
    await alter(s, "alice no more", entry(user, {PRODUCER: None, CONSUMER: None, REQUESTS: None}))
    await alter(s, "the address no more", entry([("ip", "192.0.2.3")], {CONNECTIONS: None}))


async def _refused_filters(s: Stage) -> None:
    alice, app = f"{s.scene}-alice", f"{s.scene}-app"
    for name, components in (
        ("no type", [("", EXACT, "a")]),
        ("an unknown type", [("group", EXACT, "a")]),
        ("one type twice", [("user", EXACT, alice), ("user", DEFAULT, None)]),
        ("an unknown way", [("user", 3, None)]),
        ("an unknown way and a name", [("user", -1, alice)]),
        ("no name", [("user", EXACT, None)]),
        ("a name and the default", [("user", DEFAULT, alice)]),
        ("a name and any", [("user", ANY, "")]),
        ("an address and a user", [("ip", ANY, None), ("user", ANY, None)]),
        ("a client id and an address", [("client-id", EXACT, app), ("ip", EXACT, "192.0.2.1")]),
    ):
        await describe(s, f"a filter: {name}", *components)


async def _throttled_clients(s: Stage) -> None:
    """Clients whose first request exceeds their quota: then the throttle time depends only on its size."""
    clients = ("slow-producer", "slow-sender", "slow-consumer", "slow-reader", "slow-owner")
    quotas = {PRODUCER: 1e3, CONSUMER: 1e2}
    await alter(s, "slow clients", *(entry([("client-id", client)], quotas) for client in clients))
    await until_known(s, clients[-1], quotas)
    topic = await s.topic("orders")
    await s.admin.quietly(produce_request(s, topic, batch("x" * 1_500)), 12)
    producer, sender, consumer, reader, owner = map(s.client, clients)
    await producer.ask("too much is produced", produce_request(s, topic, batch("x" * 11_000)), 12)
    await sender.ask("too much, and wrongly", produce_request(s, f"{topic}-none", batch("x" * 11_000)), 9)
    for client, name, v, epoch in (
        (consumer, "without a session", 12, -1),
        (reader, "in a new session", 17, 0),
        (owner, "in an old version", 4, -1),
    ):
        places = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
        topics = [FetchTopic(topic=topic, topic_id=s.ids[topic], partitions=places)]
        request = FetchRequest(
            max_wait_ms=5_000, min_bytes=1_200, max_bytes=1 << 20, session_epoch=epoch, topics=topics
        )
        await client.ask(f"too much is fetched {name}", request, v)
    await alter(s, "no longer slow", *(entry([("client-id", client)], dict.fromkeys(quotas)) for client in clients))
