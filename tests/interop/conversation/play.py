"""Play every scene to a broker, and lay two brokers' transcripts beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from tests.interop.conversation.plain import Plain, flat
from tests.interop.conversation.stage import Exchange, Scene, Stage

AT_ONCE = 12
"""Scenes that play at the same time: most of them wait for timeouts most of the time."""
_NOT_YET = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


async def play(bootstrap: str, scenes: Mapping[str, Scene], admin: str = "") -> dict[str, list[Exchange]]:
    """The transcript of each scene. With an admin, users authenticate."""
    host, _, port = bootstrap.rpartition(":")
    await warm_up(Stage("warm-up", host, int(port), admin), [f"warm-up-{number}" for number in range(30)])
    room = asyncio.Semaphore(AT_ONCE)

    async def transcript_of(name: str, scene: Scene) -> list[Exchange]:
        stage = Stage(name, host, int(port), admin)
        async with room:
            try:
                await scene(stage)
            finally:
                stage.close()
        return stage.transcript

    played = await asyncio.gather(*(transcript_of(name, scene) for name, scene in scenes.items()))
    return dict(zip(scenes, played, strict=True))


async def warm_up(stage: Stage, groups: Iterable[str]) -> None:
    """Wait until each group has its coordinator: Kafka creates its topic on the first lookup."""
    for group in groups:
        for _ in range(500):
            found = await stage.admin.quietly(FindCoordinatorRequest(key=group), 2)
            if found.error_code not in _NOT_YET:
                beat = await stage.admin.quietly(HeartbeatRequest(group_id=group, member_id="x"), 4)
                if beat.error_code not in _NOT_YET:
                    break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError("no coordinator")
    for _ in range(500):
        told = await stage.admin.quietly(InitProducerIdRequest(transaction_timeout_ms=1), 4)
        if told.error_code not in _NOT_YET:
            break
        await asyncio.sleep(0.02)
    stage.close()


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which the two answers to one exchange differ; the whole answer where one has none."""

    scene: str
    exchange: str
    field: str
    kafka: Plain
    kohort: Plain

    def __str__(self) -> str:
        return f"{self.scene}: {self.exchange}\n    {self.field}: Kafka {self.kafka!r}, Kohort {self.kohort!r}"


MISSING = "(not there)"


def differences(kafka: Mapping[str, list[Exchange]], kohort: Mapping[str, list[Exchange]]) -> Iterator[Difference]:
    """Every difference, in the order of the play."""
    for scene, theirs in kafka.items():
        ours = kohort[scene]
        assert [exchange.name for exchange in theirs] == [exchange.name for exchange in ours], (
            f"{scene} went another way"
        )
        for their, our in zip(theirs, ours, strict=True):
            left, right = flat(their.answer), flat(our.answer)
            for path in dict.fromkeys((*left, *right)):
                one, other = left.get(path, MISSING), right.get(path, MISSING)
                if one != other:
                    yield Difference(scene, their.name, path, one, other)
