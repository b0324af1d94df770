"""`kohort group explain`: who waits for whom, told of any group of either protocol."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kohort import NewTopic, blocking
from kohort.cli.group_explain import explain, explanation_lines
from kohort.client.admin.group_descriptions import GroupDescription, MemberDescription
from kohort.model import TopicPartition
from tests.cli.conftest import Run
from tests.cli.test_group_commands import member
from tests.interop.broker import Broker

NOW = 1_795_253_400_000


def partitions(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", number) for number in numbers)


def described_member(
    name: str, owns: frozenset[TopicPartition], target: frozenset[TopicPartition], **more: str
) -> MemberDescription:
    described = MemberDescription(f"{name}-id", name, "/10.0.0.1", None, frozenset({"orders"}), owns, target, 7)
    return replace(described, **more)  # type: ignore[arg-type]


GROUP = GroupDescription(
    "delays",
    "Reconciling",
    "consumer",
    "uniform",
    None,
    (
        replace(
            described_member("app-1", partitions(0, 1, 2), partitions(0, 1)),
            reason="2 of 5 partitions",
            since_ms=NOW - 7_000,
        ),
        replace(described_member("app-2", partitions(), partitions(2, 3)), expression="ord.*", rack="east"),
        described_member("app-3", partitions(4), partitions(4)),
    ),
    "consumer",
    7,
    7,
    NOW - 61_000,
)


def test_a_partition_on_its_way_names_who_waits_for_whom() -> None:
    assert explanation_lines(GROUP, explain(GROUP), NOW) == [
        "delays: Reconciling, group epoch 7, target computed 61 s ago, assignor uniform",
        "",
        "app-1 (/10.0.0.1, member epoch 7)",
        "  asks for   orders",
        "  owns       orders 0-2",
        "  target     orders 0-1",
        "  gives up   orders 2: told with its last or next heartbeat",
        "  so since   7 s ago",
        "  because    2 of 5 partitions",
        "",
        "app-2 (/10.0.0.1, rack east, member epoch 7)",
        "  asks for   orders, ord.*",
        "  owns       nothing",
        "  target     orders 2-3",
        "  waits for  orders 2 of app-1 (/10.0.0.1, member epoch 7)",
        "  gets       orders 3 with its next heartbeat: it has no owner",
        "",
        "app-3 (/10.0.0.1, member epoch 7)",
        "  asks for   orders",
        "  owns       orders 4",
    ]


def test_a_target_that_is_not_computed_yet_is_reported() -> None:
    behind = replace(GROUP, epoch=8, state="Assigning", target_since_ms=None)
    assert explanation_lines(behind, explain(behind), NOW)[0] == (
        "delays: Assigning, group epoch 8, the target is still that of epoch 7, assignor uniform"
    )


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        ("PreparingRebalance", ", waits for members to join again"),
        ("CompletingRebalance", ", waits for its leader's assignment"),
        ("Stable", ""),
    ],
)
def test_a_classic_group_waits_as_a_whole(state: str, waits: str) -> None:
    classic = tuple(replace(member, target=None, epoch=None) for member in GROUP.members)
    group = replace(GROUP, state=state, type="classic", epoch=None, target_epoch=None, members=classic)
    lines = explanation_lines(group, explain(group), NOW)
    assert lines[0] == f"delays: {state}, assignor uniform{waits}"
    assert not any(line.startswith("  target") for line in lines)


def test_members_with_the_same_client_id_are_distinguished_by_member_id() -> None:
    twins = replace(GROUP, members=tuple(replace(m, client_id="app") for m in GROUP.members))
    assert "app-3-id (/10.0.0.1, member epoch 7)" in explanation_lines(twins, explain(twins), NOW)


@pytest.mark.parametrize(
    ("passed", "said"), [(0, "0 s"), (7_300_000, "2 h"), (200_000, "3 min"), (9 * 86_400_000, "9 d")]
)
def test_ages_are_printed_in_a_suitable_unit(passed: int, said: str) -> None:
    group = replace(GROUP, target_since_ms=NOW - passed)
    assert f"target computed {said} ago" in explanation_lines(group, explain(group), NOW)[0]


def test_the_command_explains_a_classic_group(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])
    with member(bootstrap, name):
        ran = run("group", "explain", name, bootstrap=bootstrap)
        assert ran.code == 0, ran.err
        assert ran.lines[0].startswith(f"{name}: Stable, assignor ")
        assert f"  owns       {name} 0-2" in ran.lines
        asked = json.loads(run("group", "explain", name, "--json", bootstrap=bootstrap).out)
        assert [len(found["owns"]) for found in asked["members"]] == [3]


def test_the_command_explains_a_consumer_group(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])
    with blocking.Consumer(
        name, bootstrap_servers=bootstrap, group_id=name, client_id="app", group_protocol="consumer"
    ) as consumer:
        while not consumer.assignment:
            consumer.poll(timeout=0.1)
        lines = run("group", "explain", name, bootstrap=bootstrap).lines
        asked = json.loads(run("group", "explain", name, "--json", bootstrap=bootstrap).out)
    assert "assignor uniform" in lines[0]
    assert f"  asks for   {name}" in lines
    assert f"  owns       {name} 0-2" in lines
    assert asked["assignor"] == "uniform"
    [found] = asked["members"]
    assert (found["gives_up"], found["waits_for"], found["comes"]) == ([], {}, [])
    # Apache Kafka does not say why.
    assert found["reason"] in (None, "3 of 3 partitions; members that ask for the same have 3")


def test_a_missing_group_exits_with_code_1(run: Run, any_broker: Broker) -> None:
    ran = run("group", "explain", "nowhere", bootstrap=any_broker.bootstrap)
    assert (ran.code, ran.out) == (1, "")
    assert "There is no group nowhere" in ran.err
