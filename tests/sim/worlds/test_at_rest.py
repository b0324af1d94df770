"""Which processes may be missing when the world comes to rest, and what may take longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.sim import Plan, World
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.processes import reader
from kohort.sim.steps import MemberStart, Produce, Step, sort
from kohort.sim.world.at_rest import _shared_instance_not_resolved


@pytest.mark.parametrize(
    ("client", "code", "damaged_at", "is_missing"),
    [
        ("member-0.0", ErrorCode.GROUP_MAX_SIZE_REACHED, None, False),
        ("member-0.0", ErrorCode.GROUP_ID_NOT_FOUND, None, False),
        ("member-0.0", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, None, False),
        ("member-0.0", ErrorCode.FENCED_INSTANCE_ID, None, True),
        ("member-0.0", ErrorCode.FENCED_INSTANCE_ID, 1.5, True),
        ("member-0.0", ErrorCode.FENCED_INSTANCE_ID, 2.5, False),
        ("member-0.0", ErrorCode.UNRELEASED_INSTANCE_ID, 2.5, True),
        ("member-1.0", ErrorCode.GROUP_MAX_SIZE_REACHED, None, True),
    ],
)
def test_the_last_process_that_joined_with_an_instance_id_remains_unless_its_group_has_no_place_or_the_disk_lost_it(
    client: str, code: ErrorCode, damaged_at: float | None, is_missing: bool
) -> None:
    world: Any = SimpleNamespace(
        plan=SimpleNamespace(members=[ApplicationSettings("g", ("audit",), instance="i") for _ in range(2)]),
        processes=[SimpleNamespace(name=f"member-{number}", starts=1) for number in range(2)],
        applications=[None, None],
        wanted=[True, True],
        progress=SimpleNamespace(damaged_at={} if damaged_at is None else {"g": damaged_at}),
        observations=SimpleNamespace(
            joined={("g", "i"): {"member-1.0": 1.0, "member-0.0": 2.0}}, refused={(client, code)}
        ),
    )
    assert bool(_shared_instance_not_resolved(world)) is is_missing


def test_a_member_whose_fetches_are_small_may_take_longer_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both other partitions have been read to their end, each in a fetch of its own. A partition that is read
    # waits for one of these two fetches whenever it has brought 200 bytes.
    small = {"fetch_max_wait_ms": 10_000, "max_partition_fetch_bytes": 200}
    fetching = reader.fetching
    monkeypatch.setattr(reader, "fetching", lambda rng: fetching(rng) | small)
    backlogs = {"orders": 16, "clicks": 8, "audit": 4}
    steps: list[Step] = [Produce(float(at), topic, 50) for topic, count in backlogs.items() for at in range(count)]
    steps.append(MemberStart(17.0, 0))
    sort(steps)
    members = [ApplicationSettings("g", tuple(backlogs), session=30_000, commit_every=1_000)]
    topics, settings = dict.fromkeys(backlogs, 1), {"group.initial.rebalance.delay.ms": "0"}
    outcome = World(Plan(1, 20.0, 1, settings, topics, members, [1.0], records=True, steps=steps)).run()
    assert outcome.violation is None
    assert outcome.records == 1400
