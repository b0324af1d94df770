"""Commands for groups against Kohort; with --broker both also against Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

import confluent_kafka
import pytest

from kohort import NewTopic, TopicPartition, blocking
from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.process import until

START = 1_795_253_400_000  # 2026-11-21T09:30:00Z


@pytest.fixture
def bootstrap(any_broker: Broker) -> str:
    return any_broker.bootstrap


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """Three partitions with ten records each, a second apart; the group of that name has read 4, 5 and nothing."""
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])
        with blocking.Producer(bootstrap_servers=bootstrap) as producer:
            for n in range(30):
                producer.send(name, b"x", partition=n % 3, timestamp=START + n // 3 * 1000)
        admin.alter_group_offsets(name, {TopicPartition(name, 0): 4, TopicPartition(name, 1): 5})
    return name


@contextlib.contextmanager
def member(bootstrap: str, group: str, instance_id: str | None = None) -> Iterator[blocking.Consumer]:
    """A consumer with an assignment that keeps polling in the background."""
    done = threading.Event()

    def poll() -> None:
        while not done.is_set():
            consumer.poll(timeout=0.1)

    with blocking.Consumer(
        group, bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance_id, enable_auto_commit=False
    ) as consumer:
        while not consumer.assignment:
            consumer.poll(timeout=0.1)
        polling = threading.Thread(target=poll)
        polling.start()
        try:
            yield consumer
        finally:
            done.set()
            polling.join()


def committed(run: Run, bootstrap: str, group: str) -> dict[int, int]:
    told = json.loads(run("group", "describe", group, "--offsets", "--json", bootstrap=bootstrap).out)
    return {row["partition"]: row["committed"] for row in told["offsets"]}


def test_a_dry_run_shows_and_only_execute_does(run: Run, bootstrap: str, topic: str) -> None:
    reset = ("group", "reset-offsets", topic, "--topic", topic, "--to-earliest")
    shown = run(*reset, bootstrap=bootstrap)
    assert shown.code == 0
    assert [line.split() for line in shown.lines] == [
        ["partition", "old", "new"],
        [f"{topic}-0", "4", "0"],
        [f"{topic}-1", "5", "0"],
        [f"{topic}-2", "-", "0"],
    ]
    assert shown.err == "Nothing is set yet: --execute would change 3 of 3.\n"
    assert committed(run, bootstrap, topic) == {0: 4, 1: 5}

    done = run(*reset, "--execute", bootstrap=bootstrap)
    assert (done.code, done.out) == (0, shown.out)
    assert done.err == f"set the offsets of {topic}: 3 of 3 changed\n"
    assert committed(run, bootstrap, topic) == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize(
    ("target", "new"),
    [
        ("--to-latest", {0: 10, 1: 10, 2: 10}),
        ("--to-current", {0: 4, 1: 5, 2: 10}),
        ("--to-offset 7", {0: 7, 1: 7, 2: 7}),
        ("--to-datetime 2026-11-21T09:30:02.500", {0: 3, 1: 3, 2: 3}),
        ("--to-datetime 2027-01-01T00:00:00", {0: 10, 1: 10, 2: 10}),
        ("--topic {}:0-1 --shift-by -2", {0: 2, 1: 3}),
        ("--topic {}:1 --topic {}:2 --to-offset 99", {1: 10, 2: 10}),
        ("--all-topics --shift-by 3", {0: 7, 1: 8}),
    ],
)
def test_each_reset_target_is_applied(run: Run, bootstrap: str, topic: str, target: str, new: dict[int, int]) -> None:
    where = [] if "topic" in target else ["--topic", topic]
    options = target.replace("{}", topic).split()
    told = json.loads(
        run("group", "reset-offsets", topic, *where, *options, "--execute", "--json", bootstrap=bootstrap).out
    )
    old = {0: 4, 1: 5, 2: None}
    assert told == {
        "group": topic,
        "executed": True,
        "offsets": [{"topic": topic, "partition": n, "old": old[n], "new": new[n]} for n in new],
    }
    assert committed(run, bootstrap, topic) == {0: 4, 1: 5} | new


def test_a_duration_is_relative_to_now(run: Run, bootstrap: str, topic: str) -> None:
    told = run(
        "group", "reset-offsets", topic, "--topic", topic, "--by-duration", "P99999D", "--json", bootstrap=bootstrap
    )
    assert [row["new"] for row in json.loads(told.out)["offsets"]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("{} --topic {} --shift-by 1", 1, "has no committed offset of {}-2 to shift."),
        ("{} --topic {}:3 --to-latest", 2, "{} has no partition 3: its partitions are 0 to 2."),
        ("{} --topic no-such-topic --to-latest", 2, "UNKNOWN_TOPIC_OR_PARTITION: no-such-topic"),
        ("no-such-group --all-topics --to-latest", 1, "The group no-such-group has no committed offsets"),
    ],
)
def test_an_impossible_reset_is_one_sentence(
    run: Run, bootstrap: str, topic: str, arguments: str, code: int, says: str
) -> None:
    told = run("group", "reset-offsets", *arguments.replace("{}", topic).split(), "--execute", bootstrap=bootstrap)
    assert (told.code, told.out) == (code, "")
    assert says.replace("{}", topic) in told.err and len(told.err.splitlines()) == 1
    assert committed(run, bootstrap, topic) == {0: 4, 1: 5}


def test_a_group_with_members_is_left_alone(run: Run, bootstrap: str, topic: str) -> None:
    reset = ("group", "reset-offsets", topic, "--topic", topic, "--to-earliest")
    with member(bootstrap, topic):
        for arguments, says in (
            (reset, f"The group {topic} has members, which would continue from their own offsets"),
            ((*reset, "--execute"), f"The group {topic} has members, which would continue from their own offsets"),
            (("group", "delete", topic), f"The group {topic} has members: stop them first"),
            (
                ("group", "delete-offsets", topic, "--topic", f"{topic}:0"),
                f"A member of the group {topic} is subscribed to that topic",
            ),
        ):
            told = run(*arguments, bootstrap=bootstrap)
            assert (told.code, told.out) == (1, "")
            assert told.err.startswith(f"kohort: {says}") and len(told.err.splitlines()) == 1
        assert committed(run, bootstrap, topic) == {0: 4, 1: 5, 2: None}


def test_members_are_removed_by_id_by_instance_or_all(run: Run, bootstrap: str, topic: str) -> None:
    remove = ("group", "remove-member", topic)
    with member(bootstrap, topic) as consumer:
        member_id = consumer.member_id
        told = run("group", "describe", topic, "--members", bootstrap=bootstrap)
        assert told.lines[0].endswith("member id") and told.lines[1].endswith(member_id)
        unknown = run(*remove, member_id, "nobody", bootstrap=bootstrap)
        assert (unknown.code, unknown.out) == (1, "") and f"The group {topic} has no member nobody" in unknown.err
        assert run(*remove, member_id, bootstrap=bootstrap).out == f"removed {member_id}\n"
    with member(bootstrap, topic, "worker-3"):
        pass  # a static member stays when it closes
    unknown = run(*remove, "--instance", "worker-4", bootstrap=bootstrap)
    assert unknown.code == 1 and f"The group {topic} has no instance worker-4" in unknown.err
    assert run(*remove, "--instance", "worker-3", bootstrap=bootstrap).out == "removed worker-3\n"
    with member(bootstrap, topic, "worker-5"):
        pass
    assert run(*remove, "--all", bootstrap=bootstrap).out == "removed worker-5\n"
    assert run(*remove, "--all", bootstrap=bootstrap).out == f"The group {topic} has no members.\n"
    missing = run("group", "remove-member", "no-such-group", "--all", bootstrap=bootstrap)
    assert missing.code == 1 and missing.err.startswith("kohort: There is no group no-such-group")


def test_members_that_look_alike_are_told_apart(run: Run, bootstrap: str, topic: str) -> None:
    with member(bootstrap, topic) as one, member(bootstrap, topic, "second") as two:
        until(20.0, "both have partitions", lambda: {len(one.assignment), len(two.assignment)} == {1, 2})
        described = run("group", "describe", topic, bootstrap=bootstrap)
        ids, names = {one.member_id, two.member_id}, {one.member_id, "second"}
        assert {line.split()[-1] for line in described.lines if line.startswith(f"{topic}-")} == names
        assert ids & set(described.out.split()) == {one.member_id}, "an instance id is enough for the other"
        with member(bootstrap, topic) as three:
            rows = run("group", "describe", topic, "--members", bootstrap=bootstrap).lines
            assert {one.member_id, two.member_id, three.member_id} == {row.split()[-1] for row in rows[1:]}
            told = run("group", "describe", topic, bootstrap=bootstrap).out.split()
            assert {one.member_id, three.member_id} <= set(told)


def test_offsets_are_forgotten(run: Run, bootstrap: str, topic: str) -> None:
    delete = ("group", "delete-offsets", topic, "--topic")
    nothing = run(*delete, f"{topic}:0,2", bootstrap=bootstrap)
    assert (nothing.code, nothing.out) == (1, "")
    assert nothing.err == f"kohort: The group {topic} has no committed offset of {topic}-2.\n"
    assert run(*delete, f"{topic}:0", bootstrap=bootstrap).out == f"deleted {topic}-0\n"
    assert committed(run, bootstrap, topic) == {1: 5}
    assert run(*delete, topic, bootstrap=bootstrap).out == f"deleted {topic}-1\n"
    assert run(*delete, topic, bootstrap=bootstrap).code == 1


def test_groups_are_deleted_and_missing_ones_named(run: Run, bootstrap: str, topic: str) -> None:
    told = run("group", "delete", "no-such-group", topic, bootstrap=bootstrap)
    assert (told.code, told.out) == (1, f"deleted {topic}\n")
    assert told.err == "kohort: There is no group no-such-group; see kohort group list.\n"
    assert run("group", "describe", topic, bootstrap=bootstrap).code == 1


@pytest.mark.kafka
def test_a_group_of_the_consumer_protocol_is_seen_and_guarded(run: Run, apache_kafka: Broker, name: str) -> None:
    bootstrap = apache_kafka.bootstrap
    succeeded(run("topic", "create", name, "--partitions", "2", bootstrap=bootstrap))
    settings = {"bootstrap.servers": bootstrap, "group.id": name, "group.protocol": "consumer", "client.id": "newer"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([name])
        until(20.0, "the assignment", lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 2)
        told = json.loads(run("group", "describe", name, "--json", bootstrap=bootstrap).out)
        [member] = told["members"]
        assert (told["assignor"], member["client_id"], member["topics"]) == ("uniform", "newer", [name])
        assert [(part["topic"], part["partition"]) for part in member["assignment"]] == [(name, 0), (name, 1)]
        assert (told["type"], told["state"], member["protocol"]) == ("consumer", "Stable", "consumer")
        assert told["group_epoch"] == told["target_epoch"] == member["epoch"]
        assert (member["target"], member["expression"], member["rack"]) == (member["assignment"], None, None)
        shown = run("group", "describe", name, "--members", bootstrap=bootstrap).lines
        assert shown[0].split()[-5:] == ["target", "epoch", "protocol", "member", "id"]
        assert shown[1].split()[-4:] == ["0-1", str(member["epoch"]), "consumer", member["member_id"]]
        listed = json.loads(run("group", "list", "--type", "consumer", "--json", bootstrap=bootstrap).out)
        assert {"group": name, "state": "Stable", "protocol_type": "consumer", "type": "consumer"} in listed
        assert name not in run("group", "list", "--type", "classic", bootstrap=bootstrap).out
        for arguments in (
            ("reset-offsets", name, "--topic", name, "--to-earliest", "--execute"),
            ("remove-member", name, "nobody"),
            ("delete", name),
        ):
            refused = run("group", *arguments, bootstrap=bootstrap)
            assert (refused.code, refused.out, len(refused.err.splitlines())) == (1, "", 1), refused
        removed = run("group", "remove-member", name, member["member_id"], bootstrap=bootstrap)
        assert removed.out == f"removed {member['member_id']}\n"
    finally:
        consumer.close()
    assert run("group", "delete", name, bootstrap=bootstrap).out == f"deleted {name}\n"


def test_a_partition_that_a_member_has_not_committed_counts_in_full(run: Run, bootstrap: str, topic: str) -> None:
    with member(bootstrap, topic):
        described = run("group", "describe", topic, bootstrap=bootstrap)
        assert described.lines[0].endswith("lag 21")  # 6, 5 and 10
        assert json.loads(run("group", "describe", topic, "--json", bootstrap=bootstrap).out)["lag"] == 21
