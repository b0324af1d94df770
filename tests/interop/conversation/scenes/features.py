"""UpdateFeatures, and transactions at each level of transaction.version, and while the level changes."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace

from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.interop.conversation.scenes.transactions import REQUESTS, STATES, V1, V2, Producer, ask
from tests.interop.conversation.stage import Stage, scene

alone = functools.partial(scene, part="features")
FEATURE = "transaction.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3
_TIMEOUT_MS = 3_000
_OF_VERSION_2 = frozenset(
    {
        *(f"{state} v2" for state in ("ongoing", "committed", "aborted")),
        *("add as a broker", "commit v2", "abort v2", "offsets 5"),
        *(name for name in REQUESTS if name.startswith("produce 12") or name == "produce the same"),
    }
)
"""States and requests of clients that have learned of level 2."""


def update(
    *levels: tuple[str, int], upgrade_type: int = UPGRADE, validate_only: bool = False, allow: bool = False
) -> UpdateFeaturesRequest:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type, allow_downgrade=allow)
        for name, level in levels
    ]
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only, timeout_ms=10_000)


async def level(s: Stage) -> int:
    """The finalized level, as the broker tells its clients."""
    request = ApiVersionsRequest(client_software_name="conversation", client_software_version="1.0")
    answer = await s.admin.quietly(request, 4)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return int(levels.get(FEATURE, 0))


async def becomes(s: Stage, wanted: int, upgrade_type: int = UPGRADE) -> None:
    """Change the level, and wait until the broker tells it: Kafka's brokers do so a little later."""
    await s.admin.ask(f"to level {wanted}", update((FEATURE, wanted), upgrade_type=upgrade_type), 2)
    for _ in range(500):
        if await level(s) == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"the level does not become {wanted}")


async def shows(s: Stage, name: str) -> None:
    s.write(name, "the level", {"level": await level(s)})


@alone
async def features(s: Stage) -> None:
    """One scene, because the level is that of the cluster."""
    await _refused_updates(s)
    topic = await s.topic("t", partitions=2)
    await _time_outs(s, topic)
    for wanted in (1, 0):
        before = await _open(s, topic, f"before level {wanted}")
        await becomes(s, wanted, SAFE if wanted else UNSAFE)
        await _go_on(s, before, f"level {wanted}")
        for state in STATES:
            for request in REQUESTS:
                if not (state in _OF_VERSION_2 or request in _OF_VERSION_2):
                    await ask(s, topic, state, request, "", f"level {wanted}, ")
        await _time_outs(s, topic)
    for wanted in (1, 2):
        before = await _open(s, topic, f"before level {wanted} again")
        await becomes(s, wanted)
        await _go_on(s, before, f"level {wanted} again")


async def _refused_updates(s: Stage) -> None:
    for v in range(3):
        for name, levels in (
            ("nothing", []),
            ("the same level", [(FEATURE, 2)]),
            ("an unknown feature", [("transactions", 1)]),
            ("an unknown feature at level 0", [("transactions", 0)]),
            ("no name", [("", 1)]),
            ("a level that is too high", [(FEATURE, 3)]),
            ("a negative level", [(FEATURE, -1)]),
            ("a lower level", [(FEATURE, 1)]),
            ("level 0", [(FEATURE, 0)]),
            ("a good and a bad one", [(FEATURE, 2), ("transactions", 1)]),
            ("a bad and a good one", [("transactions", 1), (FEATURE, 2)]),
            ("one twice", [(FEATURE, 3), (FEATURE, 2)]),
        ):
            await s.admin.ask(f"{name}, version {v}", update(*levels), v)
    await s.admin.ask("a downgrade is allowed", update((FEATURE, 1), allow=True), 0)
    await shows(s, "after that")
    for v in (1, 2):
        for upgrade_type in (-1, 0, SAFE, UNSAFE, 4):
            await s.admin.ask(
                f"type {upgrade_type}, version {v}",
                update((FEATURE, 2), upgrade_type=upgrade_type, validate_only=True),
                v,
            )
            await s.admin.ask(
                f"a lower level with type {upgrade_type}, version {v}",
                update((FEATURE, 1), upgrade_type=upgrade_type, validate_only=True),
                v,
            )
            await s.admin.ask(
                f"a higher level with type {upgrade_type}, version {v}",
                update((FEATURE, 3), upgrade_type=upgrade_type, validate_only=True),
                v,
            )
        await s.admin.ask(f"a bad one, checked, version {v}", update((FEATURE, 3), validate_only=True), v)
    await shows(s, "nothing was changed")
    await becomes(s, 1, SAFE)
    await s.admin.ask("a downgrade that raises", update((FEATURE, 2), upgrade_type=SAFE), 2)
    await s.admin.ask("good and bad are neither made", update((FEATURE, 2), ("transactions", 1)), 2)
    await s.admin.ask("good and bad are neither made, version 1", update((FEATURE, 2), ("transactions", 1)), 1)
    await shows(s, "neither was made")
    await s.admin.ask("one twice, the last one counts", update((FEATURE, 3), (FEATURE, 1)), 2)
    await s.admin.ask("one twice, checked", update((FEATURE, 2), (FEATURE, 3), validate_only=True), 2)
    await becomes(s, 2)


async def _open(s: Stage, topic: str, name: str) -> dict[int, Producer]:
    """Open transactions, one of each version that clients use at this level."""
    versions = (V1, V2) if await level(s) >= V2 else (V1,)
    return {
        version: await (await Producer(s, f"{s.scene}-{name}-v{version}", topic).started()).opened(version)
        for version in versions
    }


async def _go_on(s: Stage, producers: dict[int, Producer], name: str) -> None:
    """End the open transactions, and begin the next ones, with the version of the level that is new."""
    newer = V2 if await level(s) >= V2 else V1
    for version, one in producers.items():
        newest = 5 if version == V2 else 4
        await s.admin.ask(f"{name}: v{version} sends more", one.produce(1), 12 if version == V2 else 11)
        await s.admin.ask(f"{name}: v{version} commits", one.end(commit=True), newest)
        after = await one.settled()
        s.write(f"{name}: v{version} is over", "the state", {"state": after.transaction_state})
        again = replace(one, epoch=after.producer_epoch, producer_id=after.producer_id)
        sequence = 1 if version == V1 else 0
        if version < newer:  # as Kohort's producer, which needs an epoch for itself
            await s.admin.ask(f"{name}: v{version} upgrades", again.init(claims=True), 4)
            again, sequence = replace(again, epoch=again.epoch + 1), 0
        if newer == V1:
            await s.admin.ask(f"{name}: v{version} adds", again.add(0), 3)
        await s.admin.ask(f"{name}: v{version} goes on", again.produce(sequence=sequence), 12 if newer == V2 else 11)
        await again.ended(newer, commit=False)


async def _time_outs(s: Stage, topic: str) -> None:
    """Requests of a producer whose transaction was aborted, because it took too long (KAFKA-20785)."""
    newest = await level(s)
    at = f"level {newest}"
    opened: dict[str, tuple[str, Producer]] = {}
    for version in (V1, V2) if newest >= V2 else (V1,):
        for request in (name for name in REQUESTS if newest >= V2 or name not in _OF_VERSION_2):
            name = f"{at}, timed out v{version}: {request}"
            producer = Producer(s, f"{s.scene}-{name}", topic)
            await producer.started()
            # Long enough that it is open when the last request of `opened` arrives.
            told = await producer.does(producer.init(claims=False, timeout_ms=_TIMEOUT_MS), 4)
            one = replace(producer, producer_id=told.producer_id, epoch=told.producer_epoch)
            opened[name] = request, await one.opened(version)
    for name, (request, one) in opened.items():
        while (await one.settled()).transaction_state == "Ongoing":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        message, v = REQUESTS[request](one)
        await s.admin.ask(name, message, v)
        after = await one.settled()
        state = {"state": after.transaction_state, "epoch": after.producer_epoch, "partitions": len(after.topics)}
        s.write(f"{name}, then", "the state", state)
