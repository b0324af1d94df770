"""Responses to each request of a member in each state of a classic group, from both brokers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from tests.hostile.error_inputs import World, codes
from tests.interop.broker import Broker
from tests.interop.conversation.stage import Stage

OK = ErrorCode.NONE
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
WAITS = "waits"
"""It is parked; what it gets in the end is another state's matter."""

# The member follows another, who leads; in Empty and Dead it is one that there was. It joins unchanged.
TABLE: dict[str, dict[str, object]] = {
    "Empty": {
        "a new member joins": ID_REQUIRED,
        "joins again": UNKNOWN,
        "syncs": UNKNOWN,
        "heartbeat": UNKNOWN,
        "commits": UNKNOWN,
        "somebody without a group commits": OK,
        "leaves": UNKNOWN,
    },
    "PreparingRebalance": {
        "a new member joins": ID_REQUIRED,
        "joins again": WAITS,
        "syncs": REBALANCING,
        "heartbeat": REBALANCING,
        "commits": OK,
        "somebody without a group commits": UNKNOWN,
        "leaves": OK,
    },
    "CompletingRebalance": {
        "a new member joins": ID_REQUIRED,
        "joins again": OK,
        "syncs": WAITS,
        "heartbeat": OK,
        "commits": REBALANCING,
        "somebody without a group commits": UNKNOWN,
        "leaves": OK,
    },
    "Stable": {
        "a new member joins": ID_REQUIRED,
        "joins again": OK,
        "syncs": OK,
        "heartbeat": OK,
        "commits": OK,
        "somebody without a group commits": UNKNOWN,
        "leaves": OK,
    },
    "Dead": {
        "a new member joins": ID_REQUIRED,
        "joins again": UNKNOWN,
        "syncs": UNKNOWN,
        "heartbeat": UNKNOWN,
        # ILLEGAL_GENERATION before version 9 of OffsetCommit.
        "commits": ErrorCode.GROUP_ID_NOT_FOUND,
        "somebody without a group commits": OK,
        "leaves": UNKNOWN,
    },
}


async def becomes_empty(world: World) -> None:
    await world.leader.commit("a place to be remembered for", {(world.topic, 0): 1})
    await world.follower.leave("leaves")
    await world.leader.leave("leaves, too")


async def prepares(world: World) -> None:
    await world.stranger.knocks()


async def completes(world: World) -> None:
    await prepares(world)
    await world.follower.join_waits("joins again")
    await world.leader.join("joins again, and nobody is missing")
    await world.stranger.receives("is in")
    await world.follower.receives("is in, too")


async def stays(world: World) -> None:
    """Stable is what the world begins with."""


async def is_deleted(world: World) -> None:
    await becomes_empty(world)
    assert codes(await world.ask(DeleteGroupsRequest(groups_names=[world.group]), 2)) == set()


STATES: dict[str, Callable[[World], Awaitable[None]]] = {
    "Empty": becomes_empty,
    "PreparingRebalance": prepares,
    "CompletingRebalance": completes,
    "Stable": stays,
    "Dead": is_deleted,
}


async def asked(world: World, what: str) -> object:
    member, offsets = world.follower, {(world.topic, 0): 2}
    answers: Any
    match what:
        case "a new member joins":
            answers = await world.stage.client("another").ask(what, member.join_request(9, member_id=""), 9)
        case "joins again":
            if await member.join_waits(what):
                return WAITS
            answers = await member.receives(what)
        case "syncs":
            if await member.waits(what, member.sync_request(5), 5):
                return WAITS
            answers = await member.receives(what)
        case "heartbeat":
            answers = await member.heartbeat(what)
        case "commits":
            answers = await member.commit(what, offsets)
        case "somebody without a group commits":
            answers = await member.commit(what, offsets, member_id="", generation_id_or_member_epoch=-1)
        case _:
            answers = await member.leave(what)
    found = codes(answers) or {OK}
    assert len(found) == 1
    return found.pop()


@pytest.fixture
async def world(plain_broker: Broker) -> AsyncIterator[World]:
    host, _, port = plain_broker.bootstrap.rpartition(":")
    stage = Stage(f"states-{uuid.uuid4().hex[:8]}", host, int(port))
    yield await World.at(stage)
    stage.close()


@pytest.mark.parametrize("what", TABLE["Stable"])
@pytest.mark.parametrize("state", TABLE)
async def test_each_request_is_answered_according_to_the_groups_state(state: str, what: str, world: World) -> None:
    await STATES[state](world)
    described = (await world.ask(DescribeGroupsRequest(groups=[world.group]), 5)).groups[0]
    assert described.group_state == state
    assert await asked(world, what) == TABLE[state][what]
