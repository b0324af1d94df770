"""Client metrics (KIP-714): subscriptions as configs, and what clients that push are told."""

from __future__ import annotations

import asyncio
import functools
import gzip
from uuid import UUID, uuid5

from crc32c import crc32c

from kohort.model import NO_UUID
from kohort.wire.messages import alter_configs as legacy
from kohort.wire.messages import incremental_alter_configs as incremental
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest
from kohort.wire.messages.push_telemetry import PushTelemetryRequest
from tests.interop.conversation.stage import Client, Stage, scene

telemetry = functools.partial(scene, part="telemetry")

_METRICS = 16
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_NONE, _GZIP, _SNAPPY, _LZ4, _ZSTD = range(5)
MAX_BYTES = 2_000
"""`telemetry.max.bytes` of this part."""
EMPTY = b"\x0a\x00"
"""MetricsData with one ResourceMetrics without contents."""
_IDS = UUID("5f2f2d8e-3a0c-4e55-9f0e-7f0f4a1c9d11")


@telemetry
async def client_metrics(s: Stage) -> None:
    """Pushes, then configs: each change of a subscription lets every client ask and push at once."""
    await _pushes(s)
    await _subscriptions_as_configs(s)


async def _subscriptions_as_configs(s: Stage) -> None:
    """What they may be, and who hears of them."""
    name = f"{s.scene}-configs"
    await _describe(s, "one that is not there", name)
    changes: dict[str, list[tuple[str, int, str | None]]] = {
        "metrics alone": [("metrics", _SET, "org.apache.kafka.consumer.")],
        "an interval": [("interval.ms", _SET, "5000")],
        "the shortest": [("interval.ms", _SET, "100")],
        "the longest": [("interval.ms", _SET, "3600000")],
        "too short": [("interval.ms", _SET, "99")],
        "too long": [("interval.ms", _SET, "3600001")],
        "no number": [("interval.ms", _SET, "often")],
        "an empty interval": [("interval.ms", _SET, "")],
        "an unknown config": [("nonsense", _SET, "1")],
        "null": [("metrics", _SET, None)],
        "a match": [("match", _SET, "client_id=app-.*")],
        "two matches": [("match", _SET, f"client_id={s.scene}-none,client_software_version=1\\.2.*")],
        "an unknown key": [("match", _SET, "client_rack=a")],
        "no equals sign": [("match", _SET, "client_id")],
        "no expression": [("match", _SET, "client_id=")],
        "no key": [("match", _SET, "=a")],
        "two equals signs": [("match", _SET, "client_id=a=b")],
        "an equals sign at the end": [("match", _SET, f"client_id={s.scene}-none=")],
        "blanks": [("match", _SET, f" client_id = {s.scene}-none , client_source_port = 1 ")],
        "a bad expression": [("match", _SET, "client_id=a(")],
        "an expression that only Java has": [("match", _SET, "client_id=(a)\\1")],
        "a key twice": [("match", _SET, f"client_id=a,client_id={s.scene}-none")],
        "append a metric": [("metrics", _APPEND, "org.apache.kafka.producer.")],
        "append it again": [("metrics", _APPEND, "org.apache.kafka.producer.")],
        "subtract the first": [("metrics", _SUBTRACT, "org.apache.kafka.consumer.")],
        "append to a number": [("interval.ms", _APPEND, "1")],
        "one config twice": [("metrics", _SET, "a."), ("metrics", _SET, "b.")],
        "all metrics": [("metrics", _SET, "*")],
        "no metrics": [("metrics", _SET, "")],
        "an empty part": [("metrics", _SET, "a.,")],
        "the same twice": [("metrics", _SET, "a.,a.")],
        "delete what is not set": [("match", _DELETE, None), ("match", _SET, "client_id=x")],
        "nothing": [],
    }
    for what, operations in changes.items():
        await _alter(s, what, name, *operations)
    await _alter(s, "what is then shown", name, ("metrics", _SET, "z."), ("match", _SET, f"client_id={s.scene}-none"))
    await s.configs_are(_description(name), {"metrics": "z.", "match": f"client_id={s.scene}-none"})
    await _describe(s, "after", name)
    for v in (1, 2, 3):
        await _describe(s, f"after, {v}", name, v)
    await _alter(s, "without a name", "", ("metrics", _SET, "a."))
    await _alter(s, "a strange name", f"{s.scene} /x", ("metrics", _SET, "a."), validate_only=True)
    await _replace(s, "everything", name, metrics="y.")
    await s.configs_are(_description(name), {"metrics": "y.", "match": ""})
    await _describe(s, "replaced", name)
    await _replace(s, "by what is invalid", name, nonsense="y.")
    await _replace(s, "of no name", "", metrics="y.")
    await _alter(s, "checked only", name, ("metrics", _SET, "x."), validate_only=True)
    await _listed(s, name, there=True)
    await s.admin.ask("listed", ListConfigResourcesRequest(resource_types=[_METRICS]), 1)
    await s.admin.ask("listed by the first version", ListConfigResourcesRequest(), 0)
    await _alter(s, "delete the last", name, ("metrics", _DELETE, None))
    await _listed(s, name, there=False)
    await _describe(s, "after the last", name)


async def _pushes(s: Stage) -> None:
    """The order of the errors, and what may be asked again."""
    every = f"client_id={s.scene}-.*"
    unmatched, slow = s.client("other"), s.client(f"{s.scene}-slow")
    await _ask(unmatched, "nobody wants its metrics", 1)
    await _ask(unmatched, "asked again at once", 1)
    await _push(unmatched, "pushed without a subscription", 1, subscription=unmatched_id(1))
    slowly, fast = ("interval.ms", _SET, "3600000"), ("interval.ms", _SET, "100")
    await _alter(s, "a slow one", s.scene, ("metrics", _SET, "a."), ("match", _SET, every), slowly)
    for what, request in {
        "the zero id": PushTelemetryRequest(),
        "the id that means nothing": PushTelemetryRequest(client_instance_id=UUID(int=1)),
    }.items():
        await slow.ask(f"push with {what}", request, 0)
    told = await _subscribed(s, slow, ["a."])
    await _push(slow, "without having asked, of another subscription", 10, subscription=told + 1)
    await _push(slow, "the right one, too early", 10)
    await _push(slow, "the right one, too early, the last", 10, terminating=True)
    await _push(slow, "after the last", 10)
    await _push(slow, "after the last, again", 10)
    await _ask(slow, "after the last", 10)
    wrong: dict[str, dict[str, object]] = {
        "accepted": {},
        "accepted without metrics": {"metrics": b""},
        "unknown compression": {"compression": 9},
        "negative compression": {"compression": -1},
        "unknown compression and subscription": {"compression": 9, "subscription": 7},
        "too large": {"metrics": b"\x00" * (MAX_BYTES + 1)},
        "the largest that is no OTLP": {"metrics": b"\x00" * MAX_BYTES},
        "too large and of unknown compression": {"metrics": b"\x00" * (MAX_BYTES + 1), "compression": 9},
        "no OTLP": {"metrics": b"nonsense"},
        "cut short": {"metrics": b"\x0a\x05\x00"},
        "no gzip": {"metrics": EMPTY, "compression": _GZIP},
        "gzip": {"metrics": gzip.compress(EMPTY, mtime=0), "compression": _GZIP},
        "no zstd": {"metrics": b"nonsense", "compression": _ZSTD},
        "the last": {"terminating": True},
    }
    for number, (what, given) in enumerate(wrong.items(), 20):
        client = s.client(f"{s.scene}-{number}")
        await _push(client, f"{what}, before the question", number, **given)  # type: ignore[arg-type]
        await _ask(client, f"after {what}", number)
        await _push(client, f"{what}, again", number, **given)  # type: ignore[arg-type]
    for number, (what, given) in enumerate(wrong.items(), 40):
        client = s.client(f"{s.scene}-{number}")
        await _ask(client, f"before {what}", number)
        await _push(client, f"{what}, after the question", number, **given)  # type: ignore[arg-type]
        await _ask(client, f"after {what}, once more", number)
    client = s.client(f"{s.scene}-60")
    await _ask(client, "the first of a connection", 60)
    client.hangs_up()
    await _ask_until_forgotten(client, 60)
    await _push(client, "on its next connection", 60)
    await _alter(s, "more metrics", s.scene, ("metrics", _SET, "b."))
    await _subscribed(s, s.client(f"{s.scene}-fresh"), ["b."])
    await _push(client, "of the subscription before", 60)
    await _ask(client, "the new subscription", 60)
    await _push(client, "of the new subscription", 60, metrics_name="b.")
    await _alter(s, "a faster one", f"{s.scene}-2", ("metrics", _SET, "*"), ("match", _SET, every), fast)
    await _subscribed(s, s.client(f"{s.scene}-fresh"), ["*"])
    await _ask(client, "two subscriptions", 60)
    for name in (s.scene, f"{s.scene}-2"):
        for config in ("metrics", "match", "interval.ms"):
            await _alter(s, f"{config} of {name} deleted", name, (config, _DELETE, None))


def instance(number: int) -> UUID:
    """ID of a client instance."""
    return uuid5(_IDS, str(number))


def subscription_id(text: str, number: int) -> int:
    """The ID that Kafka gives a subscription of one prefix with its interval."""
    high, low = divmod(instance(number).int, 1 << 64)
    mixed = high ^ low
    found = crc32c(text.encode()) ^ (((mixed >> 32) ^ mixed) & 0xFFFFFFFF)
    return found - (1 << 32) if found >> 31 else found


def unmatched_id(number: int) -> int:
    """Without any subscription."""
    return subscription_id("[]300000", number)


async def _ask(client: Client, what: str, number: int) -> None:
    await client.ask(f"{what}: question", GetTelemetrySubscriptionsRequest(client_instance_id=instance(number)), 0)


async def _ask_until_forgotten(client: Client, number: int) -> None:
    """Ask quietly until the broker has noticed that the connection closed."""
    for _ in range(200):
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance(number))
        told = await client.quietly(request, 0)
        if not told.error_code:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the instance is never forgotten")


async def _push(
    client: Client,
    what: str,
    number: int,
    *,
    subscription: int | None = None,
    metrics: bytes = EMPTY,
    compression: int = _NONE,
    terminating: bool = False,
    metrics_name: str = "a.",
) -> None:
    known = subscription_id(f"[{metrics_name}]300000", number) if subscription is None else subscription
    request = PushTelemetryRequest(
        client_instance_id=instance(number),
        subscription_id=known,
        terminating=terminating,
        compression_type=compression,
        metrics=metrics,
    )
    await client.ask(what, request, 0)


async def _subscribed(s: Stage, client: Client, metrics: list[str]) -> int:
    """Wait until new instances of the client are asked for these metrics: Kafka's brokers hear of it later."""
    for _ in range(200):
        told = await client.quietly(GetTelemetrySubscriptionsRequest(client_instance_id=NO_UUID), 0)
        if told.requested_metrics == metrics:
            return int(told.subscription_id)
        await asyncio.sleep(0.02)
    raise AssertionError(f"nobody is asked for {metrics}")


def _description(name: str) -> DescribeConfigsRequest:
    asked = DescribeConfigsResource(resource_type=_METRICS, resource_name=name)
    return DescribeConfigsRequest(resources=[asked], include_synonyms=True)


async def _describe(s: Stage, what: str, name: str, v: int = 4) -> None:
    await s.admin.ask(what, _description(name), v)


async def _alter(
    s: Stage, what: str, name: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> None:
    configs = [incremental.AlterableConfig(name=key, config_operation=op, value=to) for key, op, to in operations]
    resource = incremental.AlterConfigsResource(resource_type=_METRICS, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    await s.admin.ask(what, request, 1)


async def _replace(s: Stage, what: str, name: str, **configs: str) -> None:
    entries = [legacy.AlterableConfig(name=key, value=to) for key, to in configs.items()]
    resource = legacy.AlterConfigsResource(resource_type=_METRICS, resource_name=name, configs=entries)
    await s.admin.ask(what, legacy.AlterConfigsRequest(resources=[resource]), 2)


async def _listed(s: Stage, name: str, *, there: bool) -> None:
    for _ in range(200):
        told = await s.admin.quietly(ListConfigResourcesRequest(resource_types=[_METRICS]), 1)
        if (name in {resource.resource_name for resource in told.config_resources}) is there:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} is {'not ' if there else ''}listed")
