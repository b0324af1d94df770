"""Which processes may be missing when the world comes to rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.world.at_rest import _shared_instance_not_resolved


@pytest.mark.parametrize(
    ("client", "code", "is_missing"),
    [
        ("member-0.0", ErrorCode.GROUP_MAX_SIZE_REACHED, False),
        ("member-0.0", ErrorCode.GROUP_ID_NOT_FOUND, False),
        ("member-0.0", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, False),
        ("member-0.0", ErrorCode.FENCED_INSTANCE_ID, True),
        ("member-1.0", ErrorCode.GROUP_MAX_SIZE_REACHED, True),
    ],
)
def test_the_last_process_that_joined_with_an_instance_id_remains_unless_its_group_has_no_place(
    client: str, code: ErrorCode, is_missing: bool
) -> None:
    world: Any = SimpleNamespace(
        plan=SimpleNamespace(members=[ApplicationSettings("g", ("audit",), instance="i") for _ in range(2)]),
        processes=[SimpleNamespace(name=f"member-{number}", starts=1) for number in range(2)],
        applications=[None, None],
        wanted=[True, True],
        observations=SimpleNamespace(
            joined={("g", "i"): {"member-1.0": 1.0, "member-0.0": 2.0}}, refused={(client, code)}
        ),
    )
    assert bool(_shared_instance_not_resolved(world)) is is_missing
