import json

import pytest

from kohort.recorder import MalformedRecord, PartitionChange, RebalanceRecord
from tests.recorder.stories import a_day


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_record_survives_its_json(assignor: str) -> None:
    for record in a_day(assignor):
        assert RebalanceRecord.from_json(record.to_json()) == record


def test_json_contains_derived_figures() -> None:
    last = a_day("range")[-1]
    told = json.loads(last.to_json())
    assert (told["cause"], told["moved"], told["wall_ms"]) == ("session expired", len(last.moved), last.wall_ms)
    assert told["went"] == [last.went[0].member_id]
    assert [partition["dark_ms"] for partition in told["partitions"]] == [change.dark_ms for change in last.partitions]


def test_an_observer_may_leave_out_what_it_cannot_know() -> None:
    record = RebalanceRecord.from_json('{"group_id": "g", "generation": 3, "ended_at": 5}')
    assert (record.wall_ms, record.cause, record.came, record.partitions) == (None, None, (), ())


def test_fields_of_a_newer_writer_are_ignored() -> None:
    text = '{"group_id": "g", "generation": 3, "ended_at": 5, "mood": 1, "triggers": [{"cause": "x", "mood": 2}]}'
    assert RebalanceRecord.from_json(text).cause == "x"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"triggers": 3}', b"\xff", b'{"group_id": "g"}'])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecord):
        RebalanceRecord.from_json(data)


def test_darkness_is_never_negative_and_needs_both_ends() -> None:
    # An in-flight fetch of the same member can be answered in the millisecond in which its join arrives.
    assert PartitionChange("t", 0, revoked_at=10, first_read_at=9).dark_ms == 0
    assert PartitionChange("t", 0, revoked_at=10).dark_ms is None
    assert PartitionChange("t", 0, first_read_at=10).dark_ms is None
