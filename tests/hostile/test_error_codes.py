"""Each error code on the wire, for its input in error_codes.py; no input affects other clients."""

from __future__ import annotations

import ast
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kohort.broker
import kohort.coordinator
from kohort import testing
from kohort.errors import ErrorCode
from tests.hostile.error_codes import CASES, ELSEWHERE, LATER
from tests.hostile.error_inputs import Case, World, codes
from tests.interop.broker import Broker
from tests.interop.conversation.stage import Stage

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("skip", "xfail", "mark.kafka", "mark.long")
"""Marks of tests that prove nothing in each run of the suite."""


def stage_at(bootstrap: str) -> Stage:
    host, _, port = bootstrap.rpartition(":")
    return Stage(f"errors-{uuid.uuid4().hex[:8]}", host, int(port))


@pytest.fixture
async def world(plain_broker: Broker) -> AsyncIterator[World]:
    stage = stage_at(plain_broker.bootstrap)
    yield await World.at(stage)
    stage.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code.name}: {case.input}")
async def test_the_input_gets_its_error_code_and_another_group_continues(
    case: Case, world: World, request: pytest.FixtureRequest
) -> None:
    if case.ours_alone and "kafka" in request.node.callspec.id:
        pytest.skip(case.ours_alone)
    assert codes(await case.happens(world)) == {case.code}
    if not case.rebalances:
        for member in (world.leader, world.follower):
            assert codes(await member.heartbeat("goes on")) == set()


async def test_a_join_of_a_full_group_gets_an_error() -> None:
    settings = {"group.heartbeat.hold.ms": "0", "group.max.size": "2"}
    async with testing.Broker(settings=settings) as broker:
        world = await World.at(stage := stage_at(broker.bootstrap_servers))
        await world.follower.heartbeat("is in")
        assert codes(await world.stranger.join("comes third")) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
        assert codes(await world.follower.heartbeat("goes on")) == set()
        stage.close()


def test_every_code_that_the_broker_gives_has_an_input() -> None:
    listed = {case.code for case in CASES} | ELSEWHERE.keys() | frozenset().union(*LATER.values())
    packages = [Path(package.__path__[0]) for package in (kohort.broker, kohort.coordinator)]
    given = {code for package in packages for path in package.rglob("*.py") for code in codes_named_in(path)}
    assert given - listed - {ErrorCode.NONE} == set()


@pytest.mark.parametrize(("code", "where"), ELSEWHERE.items(), ids=lambda value: getattr(value, "name", ""))
def test_codes_provoked_elsewhere_are_asserted_there(code: ErrorCode, where: str) -> None:
    path, _, name = where.partition("::")
    assert code in codes_asserted_in(ROOT / path, name), f"{where} does not assert {code.name}"


def codes_asserted_in(path: Path, test: str) -> set[ErrorCode]:
    """The codes by `ErrorCode.NAME` in what one test function asserts; empty where it only mentions them."""
    module = ast.parse(path.read_text(encoding="utf-8")).body
    found = [node for node in module if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == test]
    assert found, f"{path} has no test {test}"
    of_module = [
        ast.unparse(node) for node in module if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)
    ]
    marks = [*of_module, *map(ast.unparse, found[0].decorator_list)]
    left_out = [mark for mark in marks if any(word in mark for word in LEFT_OUT)]
    assert not left_out, f"{test} does not always run: {left_out}"
    asserts = [node.test for node in ast.walk(found[0]) if isinstance(node, ast.Assert)]
    # `code != X` and `X not in codes` say that it does not arrive.
    positive = [
        node
        for node in asserts
        if isinstance(node, ast.Compare) and all(isinstance(op, ast.Eq | ast.In | ast.LtE) for op in node.ops)
    ]
    return {code for node in positive for code in codes_under(node)}


def codes_named_in(path: Path) -> set[ErrorCode]:
    """By `ErrorCode.NAME` in a module's source."""
    return codes_under(ast.parse(path.read_text(encoding="utf-8")))


def codes_under(tree: ast.AST) -> set[ErrorCode]:
    """By `ErrorCode.NAME` in a part of a module's source."""
    return {
        ErrorCode[node.attr]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
    }
