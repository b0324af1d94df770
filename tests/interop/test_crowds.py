"""Many members, many groups, and members that delay their group: other groups notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from tests.interop.crowd import JOIN, Crowd, Line, framed, share_of
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.mixed.offsets_log import java_hash
from tests.interop.process import until

LARGE = 5_000
GROUPS = 1_000
CPU_S = 1.5
"""Server time for a rebalance of the large group, five times what bench/bench_groups.py measures on an idle machine."""


# Long enough for all of a large group to come before its first generation.
SETTINGS = {"group_initial_rebalance_delay_ms": "500", "offsets_topic_num_partitions": "5"}


@pytest.fixture
def broker() -> Iterator[KohortBroker]:
    with running_kohort(**SETTINGS) as running:
        yield running


@pytest.fixture
def prompt_broker() -> Iterator[KohortBroker]:
    """Answers each heartbeat at once; one that nothing happens to would be held for nine seconds."""
    with running_kohort(group_heartbeat_hold_ms="0", **SETTINGS) as running:
        yield running


def test_five_thousand_members_share_a_group(broker: KohortBroker) -> None:
    with Crowd(broker.bootstrap, ["large"] * LARGE) as crowd:
        crowd.take_ids()
        crowd.sync(crowd.join())
        for _ in range(3):
            before, generation = broker.process.cpu_seconds(), crowd.generations[0]
            leaders = crowd.join()
            crowd.sync(leaders)
            assert broker.process.cpu_seconds() - before < CPU_S
            assert {len(members) for members in leaders.values()} == {LARGE}
            assert set(crowd.generations) == {generation + 1}
            assert crowd.shares == [share_of(member_id) for member_id in crowd.ids]
            assert crowd.beat() == {0}
        crowd.leave()
        assert state_of(broker, "large") == "Empty"


def test_five_thousand_members_survive_a_restart(tmp_path: Path) -> None:
    # Their generation is one record of a megabyte, more than is read at once when groups are loaded (KAFKA-7286).
    data = ("--data", str(tmp_path / "data"))
    with running_kohort(*data, group_initial_rebalance_delay_ms="500") as first:
        with Crowd(first.bootstrap, ["large"] * LARGE) as crowd:
            crowd.take_ids()
            crowd.sync(crowd.join())
            ids, generations = crowd.ids, crowd.generations
    with running_kohort(*data) as second, Crowd(second.bootstrap, ["large"] * LARGE) as crowd:
        crowd.ids, crowd.generations = ids, generations
        until(20.0, "the group is loaded", lambda: state_of(second, "large") == "Stable")
        assert crowd.beat() == {0}
        crowd.leave()


def test_a_thousand_groups_come_and_go_at_once(broker: KohortBroker) -> None:
    names = [f"group-{number}" for number in range(GROUPS)]
    with Crowd(broker.bootstrap, names * 3) as crowd:
        crowd.take_ids()
        leaders = crowd.join()
        assert len(leaders) == GROUPS
        assert {len(members) for members in leaders.values()} == {3}
        crowd.sync(leaders)
        assert crowd.shares == [share_of(member_id) for member_id in crowd.ids]
        assert crowd.beat() == {0}
        crowd.leave()
        assert {state_of(broker, name) for name in (names[0], names[-1])} == {"Empty"}


def test_a_dead_member_delays_only_its_own_group(prompt_broker: KohortBroker) -> None:
    # All of them in one partition of __consumer_offsets: what they share is as much as groups can share.
    names = [name for name in (f"group-{number}" for number in range(200)) if java_hash(name) % 5 == 0][:20]
    held_up, *others = names
    bootstrap = prompt_broker.bootstrap
    with Crowd(bootstrap, [held_up]) as dead, Crowd(bootstrap, others * 2, lines=20) as crowd:
        dead.take_ids()
        dead.sync(dead.join())
        newcomer = Crowd(bootstrap, [held_up])
        newcomer.take_ids()
        waits = Line(bootstrap)
        waits.send(framed(newcomer.join_request(0), JOIN))  # until the dead member joins again, which it never does

        crowd.take_ids()
        for _ in range(5):
            crowd.sync(crowd.join())
            assert crowd.beat() == {0}
            assert state_of(prompt_broker, held_up) == "PreparingRebalance"
        dead.leave()
        told = waits.receive(JoinGroupResponse, JOIN)
        assert (told.error_code, told.generation_id) == (0, 2)
        waits.close()
        newcomer.close()


def state_of(broker: KohortBroker, group: str) -> str:
    line = Line(broker.bootstrap)
    try:
        answer = line.ask(DescribeGroupsRequest(groups=[group]), 5, DescribeGroupsResponse)
    finally:
        line.close()
    return answer.groups[0].group_state
