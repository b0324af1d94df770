"""The judge passes a history as it must be, and finds each fault that is planted into it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.history import Entry
from tests.chaos.judge import History, judge, jumps, main, remarks

_clock = itertools.count(1)


def entry(kind: str, **fields: Any) -> Entry:
    made: Entry = {"at": next(_clock), "kind": kind, **fields}  # type: ignore[typeddict-item]
    return made


def sound() -> list[Entry]:
    """Three values, two members one after the other, a committer."""
    entries = [entry("sent", producer="p", partition=0, value=value) for value in range(3)]
    entries += [entry("acked", producer="p", partition=0, value=value, offset=value) for value in range(3)]
    entries += [
        entry("assigned", group="g", member="a", partitions=[0]),
        entry("read", group="g", member="a", spans=[[0, 0, 0]]),
        entry("read", group="g", member="a", spans=[[0, 1, 1]]),
        entry("revoked", group="g", member="a", partitions=[0]),
        entry("assigned", group="g", member="b", partitions=[0]),
        entry("read", group="g", member="b", spans=[[0, 1, 2]]),
        entry("committing", group="c", value=0),
        entry("committed", group="c", value=0),
        entry("committing", group="c", value=1),
    ]
    entries.append(entry("found", group="c", value=1, since=next(_clock)))
    return [
        *entries,
        entry("log", partition=0, values=[0, 1, 2]),
        entry("generation", group="g", number=1, owners={"a": [0], "b": []}),
        entry("generation", group="g", number=1, owners={"a": [0], "b": []}),
        entry("generation", group="g", number=2, owners={"b": [0]}),
        entry("commits", group="g", partition=0, values=[1, 2, 2, 3]),
        entry("epochs", group="n", problems=[]),
    ]


def with_(kind: str, **fields: Any) -> History:
    """The sound history, its first entry of that kind with other fields."""
    entries = sound()
    found = next(entry for entry in entries if entry["kind"] == kind)
    found.update(fields)  # type: ignore[typeddict-item]
    return entries


def and_(*more: Entry) -> History:
    return [*sound(), *more]


def test_a_history_as_it_must_be_is_passed() -> None:
    assert judge(sound()) == []


def test_partitions_of_killed_members_and_lost_ones_are_not_owned_twice() -> None:
    killed = [entry("assigned", group="g", member="k", partitions=[7]), entry("killed", member="k")]
    late = [entry("assigned", group="g", member="l", partitions=[7])]
    after = [
        entry("assigned", group="g", member="m", partitions=[7]),
        entry("lost", group="g", member="l", partitions=[7]),
    ]
    assert judge(and_(*killed, *late, *after)) == []


def removed(member: str, since: int | None = None) -> list[Entry]:
    """The removal of a member after 1.5 s, with an ID as a classic member has."""
    member_id = f"{member}-8f2a"
    told = entry("removed", group="g", member=member, id=member_id, since=next(_clock) if since is None else since)
    return [told, entry("waited", id=member_id, ms=1_501)]


def test_a_member_may_be_removed_that_was_killed_or_left_before_its_connection_closed() -> None:
    dead = [entry("going", member="k"), *removed("k")]
    # The storm learns late of one that ended by itself.
    early = removed("e")
    assert judge(and_(*dead, entry("ended", member="e", what=""), *early)) == []
    assert "g lost 2 members whose connections had closed" in remarks(and_(*dead, *early))


def test_of_a_member_whose_coordinator_has_failed_over_only_the_id_is_known() -> None:
    by_id = removed("i-1")
    by_id[0]["member"] = by_id[0]["id"]
    assert judge(and_(entry("going", member="i-1", at=0), *by_id)) == []
    [problem] = judge(and_(*by_id, entry("going", member="i-1", at=10**9)))
    assert problem.startswith("g lost i-1, whose connection closed")
    assert "g lost i-1-8f2a, and nothing tells which member that was" in remarks(and_(*by_id))


@pytest.mark.parametrize(
    ("fault", "waited_ms", "is_excused"), [("pause", 1_501, True), ("kill", 1_501, False), ("kill", 2_500, True)]
)
def test_a_living_member_may_only_lose_its_place_early_if_a_broker_hangs(
    fault: str, waited_ms: int, is_excused: bool
) -> None:
    before = entry("fault", what=fault, node=1)
    alive, waited = removed("k")
    waited["ms"] = waited_ms
    history = and_(before, alive, waited, entry("going", member="k", at=10**9))
    said = f"g lost k, whose connection closed at {alive['since']}, and it lived"
    assert judge(history) == ([] if is_excused else [said])
    assert (f"{said}: a broker was made to hang" in remarks(history)) == (fault == "pause")


def test_kafkajs_may_begin_again_where_its_group_committed_and_skips_nothing() -> None:
    def reading(*spans: list[int]) -> list[Entry]:
        return [
            entry("assigned", group="g", member="kafkajs-1", partitions=[9]),
            *(entry("read", group="g", member="kafkajs-1", spans=[span]) for span in spans),
        ]

    assert list(jumps(reading([9, 0, 3], [9, 2, 5]))) == []
    history = reading([9, 0, 3], [9, 5, 5])
    before = f"(assigned at {history[0]['at']}, read 0 to 3 at {history[1]['at']})"
    assert list(jumps(history)) == [f"kafkajs-1 was given offset 5 of partition 9 after 3 {before}"]


def test_librdkafka_may_begin_once_more_at_the_start_or_a_commit_after_each_assignment() -> None:
    def reading(*spans: list[int], again: Sequence[Entry] = ()) -> list[Entry]:
        return [
            entry("assigned", group="g", member="librdkafka-1", partitions=[9]),
            *(entry("read", group="g", member="librdkafka-1", spans=[span]) for span in spans),
            *again,
            entry("commits", group="g", partition=9, values=[2]),
        ]

    for first in (0, 2):
        history = reading([9, 0, 3], [9, first, 5])
        assert list(jumps(history)) == []
        [remark] = remarks(history)
        assert f"librdkafka-1 was given offset {first} of partition 9 after 3" in remark
        assert list(jumps(reading([9, 0, 3], [9, first, 5], again=reading([9, 3, 4], [9, first, 5])))) == []
    for spans in ([9, 1, 5],), ([9, 5, 5],), ([9, 0, 3], [9, 0, 5]):
        [problem] = jumps(reading([9, 0, 3], *spans))
        assert problem.startswith("librdkafka-1 was given offset")


@pytest.mark.parametrize(
    ("history", "said"),
    [
        (with_("log", values=[0, 1]), "partition 0 lost 2: offset 2 holds nothing"),
        (with_("log", values=[0, 2, 1]), "partition 0 lost 1: offset 1 holds 2"),
        (with_("log", values=[0, 1, 2, 2]), "partition 0 has 2 2 times"),
        (with_("log", values=[0, 1, 2, 9]), "partition 0 has 9, which nobody sent"),
        (with_("log", values=[0, 2, 1]), "partition 0 has 1 behind 2"),
        (and_(entry("acked", producer="p", partition=0, value=1, offset=1)), "acknowledged offset 1 after 2"),
        (with_("read", spans=[[0, 0, 1]]), "a was given offset 1 of partition 0 after 1"),
        (and_(entry("wrong", group="g", member="a", what="partition 0 has '0:5' at offset 4")), "a: partition 0 has"),
        (with_("read", spans=[]), "g never read partition 0 at 0, nor 0 others"),
        (with_("found", value=-1), "c stands at -1: 0 was acknowledged"),
        (with_("found", value=7), "c stands at 7"),
        (with_("commits", values=[1, 3, 2]), "g committed 2 of partition 0 after 3"),
        (with_("generation", owners={"a": [0], "b": [0]}), "generation 1 of g gives partition 0 to 2"),
        (with_("generation", owners={"a": [], "b": [0]}), "generation 1 of g is two different assignments"),
        (with_("generation", number=3), "generation 1 of g follows 3"),
        (with_("epochs", problems=["record 4: a and b both have 0"]), "n: record 4"),
        (and_(*removed("a", 7)), "g lost a, whose connection closed at 7, and it lived"),
        (with_("revoked", at=10**9), "b had partition 0 before a gave it up"),
        (and_(entry("stuck", group="g", what="it stands at 2")), "g: it stands at 2"),
        (and_(entry("failed", producer="p", what="timed out")), "p: timed out"),
    ],
)
def test_each_planted_fault_is_found(history: History, said: str) -> None:
    problems = judge(history)
    assert any(said in problem for problem in problems), problems


def rewritten() -> list[Entry]:
    """librdkafka wrote 1 and 2, was not answered because the leader changed, and wrote them again at its next epoch."""
    entries = [entry("sent", producer="Librdkafka", partition=1, value=value) for value in range(4)]
    entries.append(entry("acked", producer="Librdkafka", partition=1, value=0, offset=0))
    entries.append(entry("bumped", producer="Librdkafka", what="ERRSEQ skipped sequence numbers"))
    entries += [
        entry("acked", producer="Librdkafka", partition=1, value=value, offset=value + 2) for value in (1, 2, 3)
    ]
    batches = [[0, 5, 77, 0], [1, 6, 77, 0], [3, 7, 77, 1], [5, 7, 77, 1]]
    entries.append(entry("log", partition=1, values=[0, 1, 2, 1, 2, 3], batches=batches))
    entries.append(entry("wrong", group="g", member="a", what="partition 1 has '1:1' at offset 3"))
    return [*entries, entry("read", group="g", member="a", spans=[[1, 0, 5]])]


def test_duplicates_written_by_librdkafka_at_a_new_epoch_are_reported_but_not_a_violation() -> None:
    history = [*sound(), *rewritten()]
    assert judge(history) == []
    (remark,) = remarks(history)
    assert "partition 1 has 2 records twice from offset 1 on" in remark


@pytest.mark.parametrize(
    "otherwise",
    [
        {"kind": "bumped", "kept": False},
        {"kind": "bumped", "producer": "Kohort"},
        {"kind": "log", "batches": [[0, 5, 77, 0], [1, 6, 77, 0], [3, 7, 77, 0], [5, 7, 77, 0]]},
        {"kind": "log", "batches": [[0, 5, 77, 0], [1, 7, 77, 0], [3, 7, 77, 1], [5, 7, 77, 1]]},
        {"kind": "log", "batches": [[0, 5, 77, 0], [1, 6, 78, 0], [3, 7, 77, 1], [5, 7, 77, 1]]},
        {"kind": "log", "values": [0, 1, 2, 1, 3, 2]},
        {"kind": "acked", "offset": 1, "value": 1},
    ],
    ids=["no bump", "of another library", "no epoch", "no new leader", "another producer", "another run", "answered"],
)
def test_any_other_repeated_record_is_a_duplicate(otherwise: dict[str, Any]) -> None:
    changed = rewritten()
    found = next(entry for entry in changed if entry["kind"] == otherwise["kind"])
    if otherwise.pop("kept", True):
        found.update(otherwise)  # type: ignore[typeddict-item]
    else:
        changed.remove(found)
    assert any("2 times" in problem for problem in judge([*sound(), *changed]))


def test_the_command_judges_a_file_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.jsonl"
    for history, code, end in ((sound(), 0, "0 violations\n"), (with_("log", values=[0, 1]), 1, "violations\n")):
        file.write_text("".join(json.dumps(entry) + "\n" for entry in history))
        assert main([str(file)]) == code
        assert capsys.readouterr().out.endswith(end)


def test_the_command_says_in_a_sentence_what_it_cannot_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prose").write_text("no JSON\n")
    for name, said in (("missing", "No such file"), ("prose", "is no history: ")):
        with pytest.raises(SystemExit) as ended:
            main([str(tmp_path / name)])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0


def test_a_remark_says_for_how_much_of_the_time_a_gateway_was_up() -> None:
    entries = [
        entry("ready", what="gateway"),
        entry("fault", what="kill_gateway", node=0),
        entry("ready", what="gateway"),
        entry("fault", what="kill", node=1),
        entry("fault", what="kill_gateway", node=0),
        entry("ready", what="gateway"),
    ]
    for at, made in zip((0, 4_000, 6_000, 7_000, 8_000, 10_000), entries, strict=True):
        made["at"] = at
    assert remarks(entries) == ["the gateway was killed 2 times, and up for 60% of the time"]
    assert remarks(sound()) == []
